"""A file has at most 600 lines; every folder says what it is for in a README.md of at most 40."""
import os
import re

import lint

FILE_LINES = 600
README_LINES = 40
# Folders of data (a fuzz corpus) are described by the README above them.
DATA = re.compile(r"(^|/)(corpus|data)(/|$)")


def main():
    tree = lint.Tree()
    folders = {os.path.dirname(path) for path in tree.files} - {""}
    for path in sorted(folders):
        while path:
            folders.add(path)
            path = os.path.dirname(path)
    for path in tree.ending(".c", ".h", ".py", ".sh", "tests/run"):
        lines = tree.text(path).count("\n")
        if lines > FILE_LINES:
            tree.found(path, lines, f"{lines} lines; {FILE_LINES} are the most")
    for folder in sorted(folders):
        readme = f"{folder}/README.md"
        if DATA.search(folder):
            continue
        if readme not in tree.files:
            tree.found(folder, 1, "has no README.md")
        elif tree.text(readme).count("\n") > README_LINES:
            tree.found(readme, README_LINES, f"longer than {README_LINES} lines")
    tree.end()


main()
