"""clang-tidy with .clang-tidy over the product, tests/harness among it; over the other tests, too, with TF_TIDY_ALL=1 (not
the unit tests: the macros of Check are most of their code), which takes as long again. Needs compile_commands.json in the folder $TF_LINT_BUILD (tests/run sees to it)."""
import concurrent.futures
import json
import os
import shutil
import subprocess

import lint


def sources(tree, build):
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        paths = {os.path.relpath(os.path.join(entry["directory"], entry["file"]), tree.root) for entry in json.load(file)}
    left_out = ("..", "tests/unit/") if os.environ.get("TF_TIDY_ALL") == "1" else ("..", "tests/")
    return sorted(path for path in paths if path.startswith("tests/harness/") or not path.startswith(left_out))


def tidy(tree, build, path):
    command = ["clang-tidy", "-p", build, "--quiet", path]
    run = subprocess.run(command, cwd=tree.root, check=False, capture_output=True, text=True)
    errors = [line for line in run.stdout.splitlines() if ": error: " in line]
    return run.returncode, errors or (run.stdout + run.stderr).splitlines()


def main():
    if not shutil.which("clang-tidy"):
        lint.skip("clang-tidy is not installed")
    tree = lint.Tree()
    build = os.environ.get("TF_LINT_BUILD", os.path.join(tree.root, "build", "clang-release"))
    if not os.path.exists(os.path.join(build, "compile_commands.json")):
        print(f"{build} has no compile_commands.json; run tests/run lint")
        raise SystemExit(1)
    paths = sources(tree, build)
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("TF_JOBS", "2"))) as pool:
        for path, (status, said) in zip(paths, pool.map(lambda path: tidy(tree, build, path), paths)):
            if status != 0:
                tree.found(path, 1, "\n    ".join(said))
    if tree.findings:
        print(f"(with its reasons: clang-tidy -p {build} FILE)")
    tree.end()


main()
