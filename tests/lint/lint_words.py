"""Nothing unfinished and nothing about the place where the code was written."""
import re

import lint

# Written so that this file does not find itself.
WORDS = re.compile(
    r"(?<![\w.])/wo[r]k\b|(?<![\w/])sha[r]ed/|(?<![\w/])se[e]ds/|(?<![\w/])resea[r]ch/"
    r"|\bTO[D]O\b|\bFIX[M]E\b|\bXX[X]\b|\bplaceho[l]der\b|\bnot yet imple[m]ented\b", re.I)


def main():
    tree = lint.Tree()
    for path in tree.files:
        if lint.is_binary(tree, path):
            continue
        for number, line in enumerate(tree.text(path).splitlines(), 1):
            for match in WORDS.finditer(line):
                tree.found(path, number, f"'{match.group()}' has no place here")
    tree.end()


main()
