"""Compiles each pure core plain (-O2, no sanitizer, no hardening) and looks at the object: it may refer only to tf_*
(of another pure core), mem*, bcmp, msgpack_* and XXH*, and it has no writable data of its own."""
import concurrent.futures
import os
import re
import shlex
import subprocess
import tempfile

import lint

MAY_REFER = re.compile(r"^(tf_\w+|mem\w+|bcmp|msgpack_\w+|XXH\w+|_GLOBAL_OFFSET_TABLE_)$")
# Data that is constant once it has been relocated is not writable (.data.rel.ro).
WRITABLE = re.compile(r"\s[gl\s]\S*\s+O\s+(\.data(?!\.rel\.ro)\S*|\.bss\S*|\.tdata\S*|\.tbss\S*|\*COM\*)\s+\S+\s+(\S+)$")


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def library_flags():
    flags = []
    for name in ("msgpack", "msgpack-c", "libxxhash"):
        if subprocess.run(["pkg-config", "--exists", name], check=False).returncode == 0:
            flags += shlex.split(output("pkg-config", "--cflags", name))
    return flags


def compile_one(tree, path, flags, folder):
    """(what the compiler said, symbols referred to, symbols defined, writable objects)"""
    result = os.path.join(folder, path.replace("/", "-") + ".o")
    command = [os.environ.get("CC", "cc"), "-std=c11", "-D_GNU_SOURCE", "-U_FORTIFY_SOURCE", "-fno-stack-protector", "-O2",
               "-I", tree.root, "-I", folder, *flags, "-c", os.path.join(tree.root, path), "-o", result]
    run = subprocess.run(command, check=False, capture_output=True, text=True)
    if run.returncode != 0:
        return run.stderr.strip(), set(), set(), []
    undefined = set(output("nm", "-u", "-P", result).split()) - {"U", "w", "v"}
    defined = {line.split()[0] for line in output("nm", "-P", "--defined-only", result).splitlines()}
    writable = [m.groups() for m in map(WRITABLE.search, output("objdump", "-t", result).splitlines()) if m]
    return "", undefined, defined, writable


def generate_version(tree, folder):
    os.mkdir(os.path.join(folder, "proto"))
    with open(os.path.join(folder, "proto", "version.h"), "w", encoding="utf-8") as file:
        file.write(tree.text("proto/version.h.in"))


def main():
    tree = lint.Tree()
    sources = [path for path in tree.ending(".c") if tree.is_pure(path)]
    flags = library_flags()
    with tempfile.TemporaryDirectory() as folder:
        generate_version(tree, folder)
        with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("TF_JOBS", "2"))) as pool:
            results = list(pool.map(lambda path: compile_one(tree, path, flags, folder), sources))
    pure_symbols = set().union(*(defined for _, _, defined, _ in results))
    for path, (error, undefined, _, writable) in zip(sources, results):
        if error:
            tree.found(path, 1, f"does not compile on its own: {error.splitlines()[0]}")
        for symbol in sorted(undefined):
            if not MAY_REFER.match(symbol):
                tree.found(path, 1, f"refers to {symbol}: not in a pure core")
            elif symbol.startswith("tf_") and symbol not in pure_symbols:
                tree.found(path, 1, f"refers to {symbol}, which no pure core defines")
        for section, symbol in writable:
            tree.found(path, 1, f"{symbol} is a writable global ({section})")
    tree.end()


main()
