"""What no test notices (explained.txt) or runs (uncovered.txt), each with a reason."""


class Explained:
    """A path; below it lines (- the line as it is), each with what it was changed to (+ the line) where that is the
    matter; then the reason of all since the last one. All but paths is indented; the path * stands for all."""

    def __init__(self, path):
        self.reasons, folder, keys = {}, None, []  # (path, line, what it was changed to, or None)
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                text = line.strip()
                if not text or line.startswith("#"):
                    continue
                if not line.startswith(" "):
                    folder = text
                elif text.startswith("- "):
                    keys.append((folder, text[2:], None))
                elif text.startswith("+ "):
                    keys.append((folder, keys.pop()[1], text[2:]))
                else:
                    self.reasons.update({key: text for key in keys})
                    keys = []

    def has(self, path, line, changed=None):
        return (path, line, changed) in self.reasons or ("*", line, changed) in self.reasons

    def out_of_date(self, texts):
        """The keys whose line is no longer in the text of their file."""
        return [key for key in self.reasons
                if key[0] in texts and key[1] not in {line.strip() for line in texts[key[0]].split("\n")}]
