"""What the lints share: the tree, its files, the code in them, and how findings are told."""
import fnmatch
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SKIPPED_FOLDERS = re.compile(r"^(build.*|out|__pycache__|\..*)$")


class Tree:
    """The files below root; paths are relative, with slashes. root: the first argument, else the repository."""

    def __init__(self):
        self.root = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "..", ".."))
        self.files = []
        self.findings = 0
        for folder, folders, names in os.walk(self.root):
            folders[:] = sorted(name for name in folders if not SKIPPED_FOLDERS.match(name))
            for name in sorted(name for name in names if name != ".git"):
                self.files.append(os.path.relpath(os.path.join(folder, name), self.root))
        with open(os.path.join(HERE, "pure.txt"), encoding="utf-8") as lines:
            self.pure_patterns = [line.strip() for line in lines if line.strip() and not line.startswith("#")]

    def ending(self, *suffixes):
        return [path for path in self.files if path.endswith(suffixes)]

    def is_pure(self, path):
        stem = os.path.splitext(path)[0]
        return any(fnmatch.fnmatchcase(stem, pattern) for pattern in self.pure_patterns)

    def text(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8", errors="replace") as file:
            return file.read()

    def code(self, path):
        """The C text with comments and the insides of literals blanked out; lines keep their numbers."""
        return LITERAL.sub(blank, self.text(path))

    def found(self, path, line, message):
        self.findings += 1
        print(f"{path}:{line}: {message}")

    def end(self):
        sys.exit(1 if self.findings else 0)


LITERAL = re.compile(r"""/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.S)


def blank(match):
    text = match.group()
    if text.startswith("/"):
        return re.sub(r"[^\n]", " ", text)
    return text[0] + " " * (len(text) - 2) + text[-1]


def skip(reason):
    print(reason)
    sys.exit(77)


def is_binary(tree, path):
    with open(os.path.join(tree.root, path), "rb") as file:
        return b"\0" in file.read(8192)
