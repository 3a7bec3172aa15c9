"""Counts what ctest wrote with --output-junit: python3 junit.py FILE NAME

One line a program on stdout, with how long it took if that is a second or more; "PASSED FAILED SKIPPED" on file
descriptor 3. A program that ends with the summary of Check counts with each of its tests, any other as one.
"""
import os
import re
import sys
import xml.etree.ElementTree as xml

CHECK = re.compile(r"^\d+%: Checks: (\d+), Failures: (\d+), Errors: (\d+)\s*$", re.M)
LINES = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped\s*$", re.M)


def judge(case):
    """(passed, failed, skipped, reason) of one program."""
    output = case.findtext("system-out") or ""
    lines = [line for line in output.splitlines() if line.strip()]
    status = case.get("status")
    if status in ("notrun", "disabled"):
        skip = case.find("skipped")
        ran = skip is not None and skip.get("message", "").startswith("SKIP_")
        if ran:
            return 0, 0, 1, lines[-1] if lines else "no reason given"
        return 0, 1, 0, "not run"
    passed = failed = skipped = 0
    for found in CHECK.finditer(output):
        total, failures, errors = map(int, found.groups())
        passed += total - failures - errors
        failed += failures + errors
    for found in LINES.finditer(output):
        passed, failed, skipped = (a + int(b) for a, b in zip((passed, failed, skipped), found.groups()))
    if passed + failed + skipped == 0:
        passed = 1 if status == "run" else 0
    if status != "run" and failed == 0:
        failed = 1
    failure = case.find("failure")
    return passed, failed, skipped, failure.get("message", "") if failure is not None else ""


def main():
    path, name = sys.argv[1:]
    sums = [0, 0, 0]
    for case in xml.parse(path).getroot().iter("testcase"):
        *numbers, reason = judge(case)
        sums = [a + b for a, b in zip(sums, numbers)]
        word = "failed" if numbers[1] else "skipped" if numbers[2] and not numbers[0] else "ok"
        passed, failed, skipped = numbers
        what = f"{passed} passed, {failed} failed, {skipped} skipped" if sum(numbers) > 1 else reason
        took = float(case.get("time", 0))
        print(f"{word:8} {case.get('name')}" + (f": {what}" if what else "") + (f" ({took:.0f} s)" if took >= 1 else ""))
    if sum(sums) == 0:
        print(f"skipped  {name}: there are no such tests")
        sums[2] = 1
    sys.stdout.flush()
    os.write(3, "{} {} {}".format(*sums).encode())


if __name__ == "__main__":
    main()
