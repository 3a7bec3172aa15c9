"""Breaks a copy of the tree on purpose and expects each lint to say so. A lint that never finds anything proves nothing."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

import lint

# lint, file, its text, what must be found in it ({} in an expectation stands for anything)
PLANTED = [
    ("layers", "proto/planted_up.c", '#include "node/hub.h"\n', "proto/ must not include node/"),
    ("layers", "dedup/planted_side.c", '#include "handshake/keys.h"\n', "dedup/ must not include handshake/"),
    ("layers", "node/planted_bare.c", '#include "config.h"\n', "include it from the root"),
    ("layers", "paths/planted_tests.c", '#include "tests/support/support.h"\n', "paths/ must not include tests/"),
    ("layers", "handshake/planted_loop.c", "#include <event2/event.h>\n", "libevent is for edges"),
    ("layers", "proto/planted_ssl.h", "#  include <openssl/evp.h>\n", "OpenSSL is for edges"),
    ("layers", "node/hub_planted.c", "#include <time.h>\n", "<time.h>: not in a pure core"),
    ("layers", "paths/planted_edge.h", "#include <event2/util.h>\n", None),
    ("layers", "paths/link_planted.c", '#include "paths/planted_edge.h"\n', "(through paths/planted_edge.h)"),
    ("layers", "planted.c", "int tf_planted;\n", "outside the folders"),
    ("purity", "proto/planted_time.c", "long time(long *); long tf_planted_a(void); long tf_planted_a(void) { return time(0); }\n",
     "refers to time"),
    ("purity", "dedup/planted_heap.c", "void *malloc(unsigned long); void *tf_planted_b(void) { return malloc(9); }\n",
     "refers to malloc"),
    ("purity", "paths/link_planted_global.c", "int tf_planted_c = 7;\n", "tf_planted_c is a writable global"),
    ("purity", "node/guard_planted.c", "int tf_planted_f(void) { static int n; return ++n; }\n", "is a writable global"),
    ("purity", "handshake/negotiate_planted.c", "void tf_log_planted(void); void tf_planted_d(void) { tf_log_planted(); }\n",
     "which no pure core defines"),
    ("purity", "node/store/memory_planted.c", "const int tf_planted_table[] = {1, 2}; int tf_planted_e(void);\n", None),
    ("banned", "node/planted_copy.c", "void f(char *a) { strcpy(a, \"b\"); }\n", "strcpy: use"),
    ("banned", "node/planted_shell.c", "void f(void) { system (\"ls\"); }\n", "system: use"),
    ("banned", "tests/unit/planted_sleep.c", "void f(void) { usleep(5); }\n", "usleep: nothing here may depend"),
    ("banned", "node/planted_fine.c", "/* strcpy(a, b) */ const char *s = \"atoi(x)\"; void f(void) { tf_rand(c->rand(1)); }\n",
     None),
    ("size", "node/planted_long.c", "\n" * 601, "600 are the most"),
    ("size", "node/planted_fits.c", "\n" * 600, None),
    ("size", "planted_folder/file.txt", "\n", "has no README.md"),
    ("size", "planted_other/README.md", "\n" * 41, "longer than 40 lines"),
    ("words", "node/planted_place.c", "/* see /wo" + "rk/main */\n", "has no place here"),
    ("words", "node/planted_later.md", "TO" + "DO: later\n", "has no place here"),
    ("words", "node/planted_words.md", "a shared folder, /network/ and todos\n", None),
    ("scripts", "tests/planted.py", "def f(:\n", "invalid syntax"),
    ("scripts", "tests/planted.sh", "if true; then\n", ""),
]
TIDY = ('#include <stdio.h>\nvoid tf_planted(const char *path);\n'
        'void tf_planted(const char *path)\n{\n    remove(path);\n}\n')


def plant(root, path, text):
    full = os.path.join(root, path)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, "w", encoding="utf-8") as file:
        file.write(text)


def run_lint(name, root):
    script = os.path.join(lint.HERE, f"lint_{name}.py")
    run = subprocess.run([sys.executable, script, root], check=False, capture_output=True, text=True)
    return run.returncode, run.stdout + run.stderr


def judge(name, rows, root):
    """The number of rows of one lint that were not judged as they should be."""
    wrong = 0
    for _, path, text, _ in rows:
        plant(root, path, text)
    status, said = run_lint(name, root)
    if status != 1:
        print(f"lint_{name}: exit status {status} instead of 1\n{said}")
        wrong += 1
    for _, path, _, expected in rows:
        where = re.escape(os.path.dirname(path) if expected == "has no README.md" else path)
        findings = [line for line in said.splitlines() if re.match(where + r":\d+:", line)]
        if expected is None and findings:
            print(f"lint_{name}: finds fault with {path}: {findings[0]}")
            wrong += 1
        if expected is not None and not any(expected in line for line in findings):
            print(f"lint_{name}: does not find '{expected}' in {path}")
            wrong += 1
    for _, path, _, _ in rows:
        os.remove(os.path.join(root, path))
    return wrong


def judge_tidy(root):
    if not shutil.which("clang-tidy"):
        return 0
    plant(root, "node/planted_tidy.c", TIDY)
    command = ["clang-tidy", "--quiet", os.path.join(root, "node/planted_tidy.c"), "--"]
    run = subprocess.run(command, check=False, capture_output=True, text=True)
    if run.returncode != 0 and "cert-err33-c" in run.stdout:
        return 0
    print(f"clang-tidy does not find the unchecked call: {run.stdout}{run.stderr}")
    return 1


def main():
    tree = lint.Tree()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        root = os.path.join(folder, "tree")
        for path in [*tree.files, ".clang-tidy"]:
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            shutil.copy(os.path.join(tree.root, path), os.path.join(root, path))
        names = list(dict.fromkeys(row[0] for row in PLANTED))
        for name in names:
            wrong += judge(name, [row for row in PLANTED if row[0] == name], root)
        wrong += judge_tidy(root)
    total = len(PLANTED) + 1
    print(f"{total - min(wrong, total)} passed, {wrong} failed, 0 skipped")
    sys.exit(1 if wrong else 0)


main()
