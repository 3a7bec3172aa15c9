#!/usr/bin/env python3
"""Breaks one line of the cores at a time and lists the changes that no test notices.

    tests/mutate/mutate.py [--seed 1] [--count 400] AREA...        areas: proto dedup link hub

Each mutant is compiled from a copy; the tree is never changed. Status 0: no mutant survived that explained.txt does
not explain; 1: some did (one a line on standard output, `file:line: original -> mutant`), or an explanation is out of
date."""
import argparse
import collections
import concurrent.futures
import dataclasses
import fnmatch
import glob
import hashlib
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time

import build
import operators
from areas import AREAS
from explained import Explained

SLOWER = 5 # a test may take so many times what it takes by rights,
EXTRA = 2  # and so many seconds, of the processor; what takes longer hangs
MEMORY = 4 << 20  # KiB


class Test:
    def __init__(self, name, command):
        self.name, self.command, self.seconds = name, command, None

    def is_named_after(self, path):
        module = re.sub(r"\W", "_", os.path.splitext(path)[0])
        return self.name.startswith("test_" + module) or ("test_" + module).startswith(self.name)

    def run(self, environment, folder):
        """Does it pass? Or: crash, hang, failure."""
        limit = 600 if self.seconds is None else int(self.seconds * SLOWER + EXTRA)
        bounds = f"ulimit -t {limit}; ulimit -c 0; ulimit -v {MEMORY}"
        bounded = ["sh", "-c", bounds + '; exec "$@"', "sh", *self.command]
        nothing = subprocess.DEVNULL
        with subprocess.Popen(bounded, env=environment, cwd=folder, stdin=nothing, stdout=nothing, stderr=nothing,
                              start_new_session=True) as process:
            try:
                process.wait(limit * 6) # one that waits for what never comes uses no processor
            except subprocess.TimeoutExpired:
                pass
            try:
                os.killpg(process.pid, signal.SIGKILL) # children as well
            except ProcessLookupError:
                pass
            return process.wait() == 0

    def measure(self, environment, folder):
        """Of the processor, so that it matters less what else runs here."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        passed = self.run(environment, folder)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return passed


class Run:
    def __init__(self, made, tests, explained, options):
        self.build, self.tests, self.explained = made, tests, explained
        self.log, self.quick = options.log, options.quick
        self.counts = collections.Counter()
        self.kills = collections.Counter()  # (path, name of a test)
        self.objects = {}                   # path: digests of objects that were seen
        self.linkers = {}
        self.lock = threading.Lock()
        self.local = threading.local()
        self.survivors = []

    def worker_folder(self):
        if not hasattr(self.local, "folder"):
            self.local.folder = tempfile.TemporaryDirectory(prefix="mutate-")
        return self.local.folder.name

    def compile(self, path, text):
        """The object, or None."""
        folder = self.worker_folder()
        source, target = os.path.join(folder, path), os.path.join(folder, "mutant.o")
        os.makedirs(os.path.dirname(source), exist_ok=True)
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)
        run = subprocess.run(self.build.compiler(path, source, target), capture_output=True, cwd=self.build.folder,
                             check=False)
        return target if run.returncode == 0 else None

    def is_new(self, path, target):
        with open(target, "rb") as file:
            digest = hashlib.sha256(file.read()).digest()
        with self.lock:
            known = digest in self.objects[path]
            self.objects[path].add(digest)
        return not known

    def original(self, path, text):
        if path not in self.objects:
            self.objects[path] = set()
            if self.compile(path, text) is None:
                raise SystemExit(f"{path} does not compile unchanged")
            self.is_new(path, os.path.join(self.worker_folder(), "mutant.o"))

    def ordered(self, path):
        """The likeliest to notice first: those named after the module, and those that noticed changes of this file."""
        tests = [test for test in self.tests if test.seconds <= self.quick or test.is_named_after(path)]
        with self.lock:
            return sorted(tests, key=lambda test: (
                -(1 + self.kills[path, test.name]) / (test.seconds + 0.02) * (4 if test.is_named_after(path) else 1)))

    def judge(self, mutant, text):
        """killed, survived, explained, same, or refused by the compiler; and by which test."""
        lines = text.split("\n")
        lines[mutant.line - 1] = mutant.changed
        target = self.compile(mutant.path, "\n".join(lines))
        if target is None:
            return "refused", None
        if not self.is_new(mutant.path, target):
            return "same", None
        folder = self.worker_folder()
        linker = self.build.linker(mutant.path, target, folder)
        library = linker[linker.index("-o") + 1]
        subprocess.run(linker, cwd=self.build.folder, check=True)
        environment = {**self.build.environment(folder), "TMPDIR": folder}
        try:
            for test in self.ordered(mutant.path):
                if not test.run(environment, folder):
                    with self.lock:
                        self.kills[mutant.path, test.name] += 1
                    return "killed", test.name
        finally:
            os.remove(library)
        return ("explained" if mutant.is_explained(self.explained, text) else "survived"), None

    def one(self, mutant, text):
        start = time.monotonic()
        verdict, test = self.judge(mutant, text)
        seconds = round(time.monotonic() - start, 2)
        with self.lock:
            self.counts[verdict] += 1
            if verdict == "survived":
                self.survivors.append(mutant)
                print(mutant, flush=True)
            if self.log:
                entry = {**dataclasses.asdict(mutant), "verdict": verdict, "test": test, "seconds": seconds}
                print(json.dumps(entry), file=self.log, flush=True)

    def many(self, mutants, texts, count, jobs):
        """As many as it takes until count of them were judged by tests."""
        for mutant in mutants:
            self.original(mutant.path, texts[mutant.path])
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            while mutants and self.judged() < count:
                some = [mutants.pop() for _ in range(min(len(mutants), jobs * 4, count - self.judged()))]
                list(pool.map(lambda mutant: self.one(mutant, texts[mutant.path]), some))

    def judged(self):
        return self.counts["killed"] + self.counts["survived"] + self.counts["explained"]


def read(path):
    with open(os.path.join(build.ROOT, path), encoding="utf-8") as file:
        return file.read()


def found(pattern):
    return sorted(os.path.relpath(path, build.ROOT) for path in glob.glob(os.path.join(build.ROOT, pattern)))


def choose(texts, kinds, seed):
    """All mutants, the first to be taken last: a random line each, then a second one of each line, and so on."""
    rank, chance = [], random.Random(seed)
    for path, text in texts.items():
        for mutants in operators.of_file(path, text, kinds).values():
            chance.shuffle(mutants)
            rank += [(turn, chance.random(), mutant) for turn, mutant in enumerate(mutants)]
    return [mutant for _, _, mutant in sorted(rank, key=lambda entry: entry[:2], reverse=True)]


def again(path, texts):
    """The survivors that a log tells of, where their lines are now."""
    for line in open(path, encoding="utf-8"):
        entry = json.loads(line)
        if entry["verdict"] != "survived" or entry["path"] not in texts:
            continue
        lines = texts[entry["path"]].split("\n")
        places = [number for number, text in enumerate(lines, 1) if text == entry["original"]]
        if places:
            nearest = min(places, key=lambda place: abs(place - entry["line"]))
            yield operators.Mutant(entry["path"], nearest, entry["original"], entry["changed"])


def tests_of(made, patterns):
    """The tests that run on an area; patterns: of names, or a name and other arguments."""
    tests = []
    for pattern in patterns:
        wanted, *arguments = pattern.split(" ")
        for name in sorted(fnmatch.filter(made.tests, wanted)):
            command = made.tests[name]
            tests.append(Test(pattern if arguments else name, [command[0], *(arguments or command[1:])]))
    return tests


def measure(tests, made):
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        failed = [test.name for test in tests if not test.measure({**made.environment(), "TMPDIR": folder}, folder)]
    if failed:
        raise SystemExit(f"fails without any change: {' '.join(failed)}")


def run_area(area, options, made, kinds):
    texts = {path: read(path) for pattern in AREAS[area]["files"] for path in found(pattern)}
    texts = {path: text for path, text in texts.items() if fnmatch.fnmatch(path, options.file)}
    explained = Explained(options.explain)
    if options.again:
        mutants = [each for each in again(options.again, texts) if not each.is_explained(explained, texts[each.path])]
    else:
        mutants = choose(texts, kinds, f"{options.seed} {area}")
    if options.list:
        print("\n".join(map(str, reversed(mutants[-options.count:]))))
        return True
    tests = [test for test in tests_of(made, AREAS[area]["tests"]) if re.search(options.tests, test.name)]
    measure(tests, made)
    run = Run(made, tests, explained, options)
    run.many(mutants, texts, options.count, options.jobs)
    stale = explained.out_of_date(texts)
    for wrong in stale:
        print(f"{options.explain}: {wrong}")
    print(f"{area}: {run.judged()} mutants: {run.counts['killed']} killed, {run.counts['survived']} survived, "
          f"{run.counts['explained']} explained; besides {run.counts['same']} the same as another or as the original, "
          f"{run.counts['refused']} did not compile; {len(tests)} tests of "
          f"{sum(test.seconds for test in tests):.0f} s", flush=True)
    return not run.survivors and not stale


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("areas", nargs="*", metavar="AREA", help="of " + ", ".join(AREAS) + " (all)")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--count", type=int, default=400, help="mutants that tests judge, in each area (400)")
    parser.add_argument("--file", default="*", help="only files of this pattern")
    parser.add_argument("--quick", type=float, default=1000,
                        help="only tests that take at most so many seconds, and those named after the file")
    parser.add_argument("--tests", default="", help="only tests whose names this regular expression finds")
    parser.add_argument("--list", action="store_true", help="only say which would be tried")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--build", default=os.path.join(build.ROOT, "build", "mutate"))
    parser.add_argument("--explain", default=os.path.join(here, "explained.txt"))
    parser.add_argument("--log", type=argparse.FileType("a"), help="a line of JSON for each mutant is added to it")
    parser.add_argument("--again", help="only those that survived according to this log, and are not explained")
    options = parser.parse_args()
    unknown = set(options.areas) - set(AREAS)
    if unknown:
        parser.error(f"no such area: {' '.join(unknown)}")
    names = {pattern.split(" ")[0] for area in options.areas or AREAS for pattern in AREAS[area]["tests"]}
    made = None if options.list else build.Build(options.build, options.jobs, names)
    kinds = operators.families(read(path) for folder in ("proto", "dedup", "paths", "node", "node/store")
                               for path in found(f"{folder}/*.[ch]"))
    passed = [run_area(area, options, made, kinds) for area in options.areas or AREAS]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
