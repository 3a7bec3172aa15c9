"""Calls that have a better replacement, and sleeping in tests that must not depend on time."""
import re

import lint

BANNED = {
    "strcpy": "snprintf or memcpy with a checked length",
    "strcat": "snprintf",
    "stpcpy": "snprintf",
    "strncpy": "memcpy with a checked length",
    "strncat": "snprintf",
    "sprintf": "snprintf",
    "vsprintf": "vsnprintf",
    "gets": "fgets or getline",
    "strtok": "strtok_r or a reader",
    "atoi": "strtol with its checks",
    "atol": "strtol with its checks",
    "atoll": "strtoll with its checks",
    "atof": "strtod with its checks",
    "rand": "tf_rand",
    "srand": "tf_rand",
    "random": "tf_rand",
    "alloca": "tf_alloc or a bounded array",
    "system": "posix_spawn",
    "popen": "posix_spawn",
    "tmpnam": "mkstemp",
    "mktemp": "mkstemp",
}
SLEEPS = ("sleep", "usleep", "nanosleep", "clock_nanosleep")
# A call, not a member, a declaration of a member or a longer name.
CALL = re.compile(r"(?<![\w.])(?<!->)(" + "|".join([*BANNED, *SLEEPS]) + r")\s*\(")


def main():
    tree = lint.Tree()
    for path in tree.ending(".c", ".h"):
        timeless = path.startswith(("tests/unit/", "tests/sim/")) or tree.is_pure(path)
        for number, line in enumerate(tree.code(path).splitlines(), 1):
            for name in CALL.findall(line):
                if name in BANNED:
                    tree.found(path, number, f"{name}: use {BANNED[name]}")
                elif timeless:
                    tree.found(path, number, f"{name}: nothing here may depend on the clock")
    tree.end()


main()
