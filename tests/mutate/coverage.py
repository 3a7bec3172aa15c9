#!/usr/bin/env python3
"""Which lines and branches of the pure cores (lint/pure.txt) the unit tests and simulations run.

    tests/mutate/coverage.py [--lines] [--branches] [--again]

Makes a build of its own with gcc --coverage, runs all unit tests and the simulations of areas.py, with as few seeds, in
it, and prints a table. Status 0: at least 95 % of the lines and of the branches, and uncovered.txt explains each line
that is left; else 1. Lines that only assert count neither as lines nor as branches: what they ask is never false; nor
is the way past the last case of a switch a branch, for each has all of its enum."""
import argparse
import collections
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile

import build
from areas import AREAS
from explained import Explained

sys.path.insert(0, os.path.join(build.ROOT, "tests", "lint"))
import lint  # pylint: disable=wrong-import-position

LEAST = 95.0
ASSERTS = re.compile(r"\bTF_ASSERT\(|\bTF_UNREACHABLE\(")


class File:
    def __init__(self, text):
        self.text = text.split("\n")
        self.asserts = asserting(self.text)
        self.lines = collections.Counter()     # line: how often it ran
        self.branches = {}                     # line: [how often each was taken]

    def add(self, line):
        number = line["line_number"]
        if number in self.asserts:
            return
        self.lines[number] += line["count"]
        taken = [branch["count"] for branch in line["branches"]]
        before = self.branches.get(number, [0] * len(taken))
        if taken and len(before) == len(taken):
            self.branches[number] = [one + other for one, other in zip(before, taken)]

    def settle(self):
        """A switch here has every case of its enum: the way past the last one is no branch."""
        for number, taken in self.branches.items():
            if self.text[number - 1].strip().startswith("switch (") and taken[-1] == 0:
                taken.pop()

    def missed(self):
        return sorted(number for number, count in self.lines.items() if count == 0)

    def half(self):
        return sorted(number for number, taken in self.branches.items() if 0 in taken and self.lines[number] > 0)

    def numbers(self):
        taken = [count for counts in self.branches.values() for count in counts]
        return (len(self.lines) - len(self.missed()), len(self.lines), sum(count > 0 for count in taken), len(taken))


def asserting(text):
    """The lines of assertions, up to the end of each."""
    found, open_ = set(), 0
    for number, line in enumerate(text, 1):
        if open_ > 0 or ASSERTS.search(line):
            found.add(number)
            open_ += line.count("(") - line.count(")")
    return found


def run_tests(folder, jobs, tests):
    build.output("cmake", "-S", build.ROOT, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
                 "-DCMAKE_C_COMPILER=gcc", "-DCMAKE_C_FLAGS=-O0 --coverage -fprofile-update=atomic", "-DTF_WERROR=OFF")
    sims = sorted({name for area in AREAS.values() for name in area["tests"] if name.startswith("sim_")})
    build.output("ninja", "-C", folder, "-j", str(jobs), "tests/unit/all", *(name.split(" ")[0] for name in sims))
    for path, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".gcda"):
                os.remove(os.path.join(path, name))
    run = subprocess.run(["ctest", "--test-dir", folder, "-L", "^unit$", "-R", tests, "-E", "^bench_", "-j", str(jobs),
                          "--timeout", "3000"],
                         env={**os.environ, "CK_FORK": "no"}, stdout=sys.stderr, check=False)
    passed = run.returncode == 0
    for name in sims:
        if re.search(tests, name):
            print(name, file=sys.stderr, flush=True)
            command = [os.path.join(folder, "tests", "sim", name.split(" ")[0]), *name.split(" ")[1:]]
            passed = subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode == 0 and passed
    return passed


def count(folder, tree, files):
    """Adds what gcov says of each object that ran."""
    product = []
    for path, _, names in os.walk(folder):
        if "/tf_" in path and "/tests/" not in path.removeprefix(folder):
            product += [os.path.join(path, name) for name in names if name.endswith(".gcno")]
    with tempfile.TemporaryDirectory() as place:
        subprocess.run(["gcov", "--json-format", "--branch-probabilities", *product], cwd=place, check=True,
                       stdout=subprocess.DEVNULL)
        for name in os.listdir(place):
            with gzip.open(os.path.join(place, name)) as file:
                for source in json.load(file)["files"]:
                    path = os.path.relpath(os.path.join(build.ROOT, source["file"]), build.ROOT)
                    if path.endswith(".c") and tree.is_pure(path):
                        one = files.setdefault(path, File(tree.text(path)))
                        for line in source["lines"]:
                            one.add(line)


def share(part, whole):
    return 100.0 * part / whole if whole else 100.0


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(build.ROOT, "build", "coverage"))
    parser.add_argument("--explain", default=os.path.join(here, "uncovered.txt"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--tests", default=".", help="only tests whose names this matches")
    parser.add_argument("--again", action="store_true", help="only count what the last run left")
    parser.add_argument("--lines", action="store_true", help="also the lines that never ran, explained or not")
    parser.add_argument("--branches", action="store_true", help="also the lines of which a branch was never taken")
    options = parser.parse_args()
    if not options.again and not run_tests(options.build, options.jobs, options.tests):
        print("a test failed")
        return 1
    sys.argv[1:] = []
    tree, files, explained = lint.Tree(), {}, Explained(options.explain)
    count(options.build, tree, files)
    for file in files.values():
        file.settle()
    sums, unexplained = [0, 0, 0, 0], 0
    for path, file in sorted(files.items()):
        numbers = file.numbers()
        sums = [one + other for one, other in zip(sums, numbers)]
        print(f"{path:32} lines {numbers[0]:4} of {numbers[1]:4}  {share(*numbers[:2]):6.1f} %   "
              f"branches {numbers[2]:4} of {numbers[3]:4}  {share(*numbers[2:]):6.1f} %")
        for number in file.missed():
            known = explained.has(path, file.text, number)
            unexplained += not known
            if options.lines or not known:
                print(f"    {path}:{number}: {file.text[number - 1].strip()}{'   (explained)' if known else ''}")
        for number in file.half() if options.branches else ():
            print(f"    {path}:{number}: {file.branches[number]} {file.text[number - 1].strip()}")
    texts = {path: tree.text(path) for path in files}
    stale = explained.out_of_date(texts, {path: file.missed() for path, file in files.items()})
    for wrong in stale:
        print(f"{options.explain}: {wrong}")
    print(f"{len(files)} pure cores: {share(*sums[:2]):.1f} % of {sums[1]} lines, {share(*sums[2:]):.1f} % of "
          f"{sums[3]} branches; {unexplained} lines never ran and are not explained")
    enough = share(*sums[:2]) >= LEAST and share(*sums[2:]) >= LEAST
    return 0 if enough and unexplained == 0 and not stale else 1


if __name__ == "__main__":
    sys.exit(main())
