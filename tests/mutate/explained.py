"""What no test notices (explained.txt) or runs (uncovered.txt), each with a reason."""
import re

FUNCTION = re.compile(r"^[A-Za-z_].*?\b(\w+)\(")


def function_of(lines, number):
    """The function that the line (from 1) is in; None: in none. Functions begin at the first column, and nothing else does
    that is in one."""
    for at in range(number, 0, -1):
        begin = FUNCTION.match(lines[at - 1])
        if begin:
            return begin.group(1)
        if lines[at - 1].startswith("}") and at < number:
            break
    return None


class Explained:
    """A path; below it lines (- the line as it is), each with what it was changed to (+ the line) where that is the
    matter; then the reason of all since the last one. A line that is more than once in its file has its function before
    it: - [function] line. All but paths is indented; the path * stands for all."""

    def __init__(self, path):
        self.reasons, folder, keys = {}, None, []  # (path, function or None, line, what it was changed to, or None)
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                text = line.strip()
                if not text or line.startswith("#"):
                    continue
                if not line.startswith(" "):
                    folder = text
                elif text.startswith("- "):
                    function, original = re.fullmatch(r"- (?:\[(\w+)\] )?(.*)", text).groups()
                    keys.append((folder, function, original, None))
                elif text.startswith("+ "):
                    keys.append((*keys.pop()[:3], text[2:]))
                else:
                    self.reasons.update({key: text for key in keys})
                    keys = []

    def has(self, path, lines, number, changed=None):
        """Is a line (from 1) of these, or its change, explained?"""
        line = lines[number - 1].strip()
        ways = (path, function_of(lines, number)), (path, None), ("*", None)
        return any((*way, line, changed) in self.reasons for way in ways)

    def out_of_date(self, texts, missed=None):
        """For each that fits no line of its file any more, or several without saying which, or only lines that are not
        among those missed (by path; None: that is not the matter): what is wrong with it."""
        wrong = []
        for path, function, original, _ in self.reasons:
            if path not in texts:
                continue
            lines = texts[path].split("\n")
            numbers = [number for number, line in enumerate(lines, 1) if line.strip() == original]
            named = {number for number in numbers if function in (None, function_of(lines, number))}
            if not named:
                wrong.append(f"{path} has no such line{f' in {function}' if function else ''} any more: {original}")
            elif function is None and len({function_of(lines, number) for number in numbers}) > 1:
                wrong.append(f"{path} has that line in several functions; say in which: {original}")
            elif missed is not None and not named & set(missed[path]):
                wrong.append(f"{path} has no such line that never ran: {original}")
        return wrong
