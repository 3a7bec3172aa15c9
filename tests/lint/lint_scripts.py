"""Scripts: Python compiles, shell passes shellcheck (where it is installed, else bash -n)."""
import os
import shutil
import subprocess

import lint


def main():
    tree = lint.Tree()
    shell = tree.ending(".sh")
    for extra in ("tests/run", ".ci/run", "deploy/quickstart"):
        if os.path.exists(os.path.join(tree.root, extra)):
            shell.append(extra)
    command = ["shellcheck", "--format=gcc"] if shutil.which("shellcheck") else ["bash", "-n"]
    for path in shell:
        run = subprocess.run([*command, path], cwd=tree.root, check=False, capture_output=True, text=True)
        if run.returncode != 0:
            tree.found(path, 1, (run.stdout + run.stderr).strip())
    for path in tree.ending(".py"):
        try:
            compile(tree.text(path), path, "exec")
        except SyntaxError as error:
            tree.found(path, error.lineno, error.msg)
    tree.end()


main()
