"""Includes point only towards proto/, from the root; libevent and OpenSSL stay at the edges; pure cores see no header
that could tempt them (directly or through another header)."""
import os
import re

import lint

# A folder may include itself and the folders named here.
ALLOWED = {
    "proto": [],
    "dedup": ["proto"],
    "handshake": ["proto", "dedup"],
    "paths": ["proto", "dedup", "handshake"],
    "node": ["proto", "dedup", "handshake", "paths"],
    "tests": ["proto", "dedup", "handshake", "paths", "node"],
}
PURE_SYSTEM = re.compile(
    r"^(stdbool|stddef|stdint|string|limits|inttypes|stdalign|stdnoreturn|stdarg|msgpack|xxhash)\.h$|^msgpack/")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.M)


def includes(tree, path):
    """(line, is a system header, name) of each #include, also those that are commented in the middle of a line."""
    text = re.sub(r"/\*.*?\*/", lint.blank, tree.text(path), flags=re.S)
    return [(text.count("\n", 0, m.start(2)) + 1, m.group(1) == "<", m.group(2)) for m in INCLUDE.finditer(text)]


def check_folder(tree, path, known):
    folder = path.split("/")[0]
    for line, system, name in known[path]:
        target = name.split("/")[0]
        if system:
            if name.startswith("event2/") and folder in ("proto", "dedup", "handshake"):
                tree.found(path, line, f"<{name}>: libevent is for edges, never in {folder}/")
            if name.startswith("openssl/") and folder in ("proto", "dedup"):
                tree.found(path, line, f"<{name}>: OpenSSL is for edges, never in {folder}/")
        elif target not in ALLOWED:
            tree.found(path, line, f'"{name}": include it from the root of the tree, as "folder/file.h"')
        elif target != folder and target not in ALLOWED[folder]:
            tree.found(path, line, f'"{name}": {folder}/ must not include {target}/')


def check_pure(tree, path, known):
    """Follows the includes of a pure file to every system header it sees."""
    seen = {path}
    waiting = [(path, [])]
    while waiting:
        at, way = waiting.pop()
        for line, system, name in known.get(at, []):
            where = way[0] if way else line
            if system and not PURE_SYSTEM.match(name):
                through = f" (through {at})" if way else ""
                tree.found(path, where, f"<{name}>{through}: not in a pure core")
            if not system and name not in seen:
                seen.add(name)
                waiting.append((name, way or [line]))


def main():
    tree = lint.Tree()
    known = {path: includes(tree, path) for path in tree.ending(".c", ".h", ".h.in")}
    for path in known:
        folder = path.split("/")[0]
        if folder not in ALLOWED or os.sep not in path:
            tree.found(path, 1, "C code outside the folders of the layers")
            continue
        check_folder(tree, path, known)
        if tree.is_pure(path):
            check_pure(tree, path, known)
    tree.end()


main()
