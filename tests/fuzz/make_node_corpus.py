#!/usr/bin/env python3
"""Writes the seeds of corpus/calls, config, values, pub_input, output, stored, log, spool and store: the examples of
proto/PROTOCOL.md, the sample configuration, and what stands at a border. Run it after a change of a format and commit
what changes; inputs that libFuzzer found stay as they are.

    tests/fuzz/make_node_corpus.py
"""
import os
import re
import struct

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
NODE = "a" * 52

# -- calls: the numbers of the kinds in fuzz_calls.c --

CALLS = {
    "arguments open": 0, "arguments channels": 1, "arguments send": 2, "arguments subscribe": 3, "arguments confirm": 4,
    "arguments more": 5, "arguments read": 6, "arguments trim": 7, "arguments gaps": 8, "arguments forget_cursor": 9,
    "result open": 11, "result send": 12, "result subscribe": 13, "result channels": 14, "result info": 15,
    "result trim": 16, "result gaps": 17, "result read": 18, "refusal": 19, "arguments activity": 23,
    "arguments gap": 24, "arguments ended": 25, "arguments publish": 26, "arguments lookup": 26, "arguments refs": 27,
    "result refs": 28,
}


def call_of(name):
    found = [kind for kind in CALLS if name == kind or name.startswith(kind + " ")]
    return CALLS[max(found, key=len)] if found else None


def calls():
    with open(os.path.join(ROOT, "proto", "PROTOCOL.md"), encoding="utf-8") as file:
        text = file.read()
    for name, body in re.findall(r"^```hex map (.*)\n((?:.*\n)*?)```$", text, re.MULTILINE):
        kind = call_of(name)
        if kind is not None:
            yield "doc_" + name.replace(" ", "_"), bytes([kind, 0, 40]) + bytes.fromhex(re.sub(r"#.*", "", body))
    yield "none", bytes([10, 0, 0, 0x80])
    yield "none_with_key", bytes([10, 0, 0, 0x81, 0xA1, 0x61, 0xC0])
    yield "claims_items", bytes([14, 0, 0]) + bytes.fromhex("81a56974656d73ddffffffff")
    yield "deep", bytes([14, 0, 0]) + bytes.fromhex("81a56974656d7391919191c0")
    yield "key_twice", bytes([5, 0, 0]) + bytes.fromhex("82a56c696d697401a56c696d697402")
    yield "state", bytes([20, 0, 9]) + bytes.fromhex(
        "87a46e616d65a172a565706f636805a5666972737401a46865616400a5627974657300a974696d657374616d7000a6636c6f736564c2")
    yield "cursor", bytes([21, 0, 9]) + bytes.fromhex("85a46e616d65a172a56f776e6572c420" + "07" * 32 +
                                                     "a565706f636805a46e65787401a56d6f76656400")
    yield "hole", bytes([22, 0, 9]) + bytes.fromhex("83a5666972737401a46c61737405a6726561736f6ea164")


# -- config --

CONFIG = {
    "empty": "",
    "least": "[node]\naccept = any\n",
    "peers": f'[peer "a"]\nkey = {NODE}\nuri = twofold://{NODE}@[::1]:7420?datagram=h:1&stream-copy=standby\n'
             f'relay = yes\n[peer "b"]\nkey = {"b" + NODE[1:]}\ndatagram_copy = standby\n'
             '[channel "room/*"]\nread = a, b\nwrite = a\nmax_age = 7d\nmax_bytes = 1GiB\nmax_count = 5\n'
             'dedup_age = 2h\n[channel "?"]\nread = any\n',
    "limits": "[limits]\nmax_in_flight = 5\nmax_message = 64KiB\nwindow_bytes = 1MiB\nwindow_segments = 64\n"
              "session_timeout = 30s\nkeepalive = 1s\nrehandshake = 1h\npeers = 3\nchannels = 7\nrate = 0\n"
              "rate_bytes = 5kB\nstore_bytes = 1MiB\nkey_phase_packets = 100000\n",
    "store": "[store]\nkind = memory\nsegment_size = 256KiB\nlog_size = 1MiB\n[log]\nlevel = debug\nformat = json\n",
    "paths": "[node]\ndata = /var/lib/x y ; comment\nkey=;no comment\n"
             "[listen]\naddress = 0.0.0.0:0\naddress = [::]:1\n",
    "unknown": "[nodes]\nacept = any\n[node]\nacept = any\nlevel = info\n[node\nno pair\n= value\n",
    "twice": '[node]\ndata = a\ndata = b\n[peer "a"]\n[peer "a"]\n[channel "x"]\n[channel "x"]\n',
    "control": '[peer "\x1b[31m"]\n[\x1b]\n[node]\n\x07 = \x1b\naccept = \x1b[0m\n[channel "\x1b"]\n',
    "quotes": '[node]\ndata = "x"\n[peer a]\n[peer ""]\n[peer "any"]\n[channel]\n',
    "mark": "\ufeff[node]\r\n\taccept = pinned ; all\r\n# x\r\n; y\r\n[log]\rlevel = warn",
    "long": "[node]\ndata = /" + "x" * 198 + " " * 10 + ";" + "y" * 300 + "\n",
    "longest": "[node]\ndata = " + "z" * 4095 + "\nkey = " + "z" * 4096 + "\n",
    "head": "[" + "h" * 300 + "]\n[" + "peer " * 60 + "]\n",
    "store_sizes": "[store]\nsegment_size = 300000\n[channel \"x\"]\ndedup_age = 1h\n",
}


def config():
    with open(os.path.join(ROOT, "deploy", "relay.conf.example"), "rb") as file:
        sample = file.read()
    yield "sample", sample
    yield "sample_active", re.sub(rb"^;", b"", sample, flags=re.MULTILINE)
    for name, text in CONFIG.items():
        yield name, text.encode()


# -- values --

VALUES = {
    0: ["0ms", "250ms", "10s", "5m", "1h", "7d", "213503982334d", "18446744073709551615ms", "1 s", "s", "", "-1s"],
    1: ["0", "512B", "16KiB", "4MiB", "1GiB", "16777215TiB", "16777216TiB", "5kB", "1 TB", "18446744073709551616"],
    2: ["relay.example:7420", "192.0.2.1:1", "[2001:db8::1]:65535", "[::ffff:192.0.2.1]:5", "a.:0", "1.2.3:4", "::1:5",
        "[fe80::1%lo]:7", "[fe80::1%1]:7", "[::1]7", "[", ":1", "a..b:1", "x" * 63 + ":1", "x" * 64 + ":1"],
    3: ["0.0.0.0:0", "[::]:0"],
    4: [f"twofold://{NODE}@h:1", f"twofold://{NODE}@[::1]:7420/?datagram=h:2&stream-bind=lo&datagram-bind=127.0.0.1",
        f"twofold://{NODE}@h:1?stream-copy=always&datagram-copy=standby", f"twofold://{NODE}@h:1?datagram=h:1",
        f"twofold://{NODE}@h:1?stream-copy=standby&datagram-copy=standby", f"twofold://{NODE}@h:1?", "twofold://",
        f"twofold://{NODE[1:]}@h:1", f"twofold://{NODE}@h:1?x=\x1b", "http://x"],
    5: [NODE, "7" * 52, "A" * 52, NODE + "a"],
    6: ["1.2.3.4", "::1", "fe80::1%lo", "fe80::1%1", "::ffff:1.2.3.4", "::1%0", "x"],
    7: ["\x01*room", "\x03a?crabc", "\x05*a*b*aaaaaabbb", "\x02**room/1"],
}


def values():
    for kind, words in VALUES.items():
        for i, word in enumerate(words):
            yield f"{kind}_{i:02}", bytes([kind]) + word.encode()


# -- pub_input, output --


def pub_input():
    sizes = bytes([0, 1, 2, 3, 0, 255, 7])
    for name, decisions, text in [("lines", 0, b"one\ntwo\n\nlast"), ("twice", 2, b"a\nb\nc\n"),
                                  ("nul", 1, b"a\nb\0\0c"), ("empty", 0, b""), ("ends", 3, b"\0\0\0"), ("longest", 0xF0, b"\nnext\n"),
                                  ("fits", 0xF4, b"xxxx\nnext"), ("too_long", 0xF8, b"xxxxxxxxx"),
                                  ("too_long_with_end", 0xF0, b"x" * 20 + b"\nnext\n")]:
        yield name, bytes([decisions]) + sizes + text


def field(data):
    return bytes([len(data)]) + data


def output():
    bodies = {"text": "grün \\x41".encode(), "controls": b"a\x1b[31m\r\n\t\x7f\0", "c1": b"\xc2\x85 \xc2\xa0 \xc2",
              "binary": bytes(range(256)), "empty": b"", "cut": "€".encode()[:2]}
    for name, body in bodies.items():
        yield "body_" + name, b"\x00" + body
        yield "raw_" + name, b"\x01" + body
        head = field(b"room/1") + struct.pack(">IIB", 7, 9, 1) + field(b"id\"") + field(b"c\x80") + field(body[:40])
        yield "activity_" + name, b"\x02" + head + body
        yield "ack_" + name, b"\x03" + struct.pack(">IB", 5, 0) + field(b"c1") + field(body[:40]) + field(b"") + body
        yield "refusal_" + name, b"\x04" + struct.pack(">IB", 5, 3) + field(b"c1") + field(b"") + field(b"busy") + body


# -- stored --


def var(value):
    if value < 1 << 6:
        return struct.pack(">B", value)
    if value < 1 << 14:
        return struct.pack(">H", value | 0x4000)
    if value < 1 << 30:
        return struct.pack(">I", value | 0x80000000)
    return struct.pack(">Q", value | 0xC000000000000000)


def record(kind, fields, version=1):
    return bytes(12) + struct.pack(">BBQ", version, kind, 41) + fields


def message(flags, expires=b"", meta=b"", body=b"body"):
    return (var(3) + bytes([flags]) + var(5) + struct.pack(">QQ", 6, 7) + expires + b"\x07" * 32 +
            struct.pack(">Q", 8) + field(b"client") + meta + body)


def records():
    yield "create", record(1, var(3) + struct.pack(">Q", 9) + field(b"room/1"))
    yield "append", record(2, message(0))
    yield "append_all", record(2, message(3, struct.pack(">Q", 99), var(2) + b"mm", b""))
    yield "append_expires_0", record(2, message(1, bytes(8)))
    yield "append_meta_0", record(2, message(2, b"", var(0)))
    yield "close", record(3, var(3))
    yield "trim", record(4, var(3) + var(70000))
    yield "forget", record(5, var(3) + struct.pack(">q", -5))
    yield "epoch", record(6, var(3) + struct.pack(">Q", 10))
    yield "cursor", record(7, var(3) + b"\x07" * 32 + field(b"reader") + struct.pack(">Q", 9) + var(4) + bytes(8))
    yield "later", record(1, b"?", 2)
    yield "long_var", record(3, struct.pack(">Q", 0xC000000000000003))


def block_message(first, time, expires=b"", meta=b"", body=b"b"):
    flags = (1 if expires else 0) | (2 if meta else 0)
    known = var(0) + (b"\x07" * 32 + struct.pack(">Q", 8) if first else b"") + var(0)
    epoch = struct.pack(">Q", 5) if first else b""
    return bytes([flags]) + known + epoch + var(time) + expires + field(b"id") + meta + var(len(body)) + body


def block(messages, count, version=1):
    return struct.pack(">BQQIQ", version, 3, 10, count, 1000) + messages + bytes(8)


def entry(number, origin):
    return struct.pack(">QQQQQQ", number, 1, 2, 3, 4, 5) + origin + field(b"id%d" % number)


def stored():
    for name, data in records():
        yield "record_" + name, b"\x00" + data
    yield "segment", b"\x01" + bytes(16) + struct.pack(">IIQQQ", 1, 0, 7, 9, 1 << 20) + bytes(464)
    yield "segment_later", b"\x01" + bytes(16) + struct.pack(">I", 2) + bytes(492)
    group = bytes(8) + struct.pack(">IHHQQQ", 0x74664772, 1, 0, 7, 5, 4)
    yield "groups", b"\x02" + (group + struct.pack(">II", 2, 400) + bytes(464)) * 2 + group + bytes(470)
    top = struct.pack(">IHHQQQII", 0x74664772, 1, 0, 7, (1 << 64) - 2, 4, 1, 0)
    yield "group_top", b"\x02" + bytes(8) + top + bytes(464)
    two = block_message(True, 0) + block_message(False, 5, struct.pack(">Q", 99), var(1) + b"m", b"")
    yield "block", b"\x03" + block(two, 2)
    yield "block_count", b"\x03" + block(two, 3)
    yield "block_later", b"\x03" + block(two, 2, 2)
    yield "block_time", b"\x03" + block(block_message(True, (1 << 62) - 1) + block_message(False, (1 << 62) - 1) * 2, 3)
    entries = entry(5, var(0) + b"\x07" * 32) + entry(5, var(0)) + entry(9, var(1) + b"\x08" * 32)
    yield "part", b"\x04\x01" + entries + bytes(8)
    yield "part_unsorted", b"\x04\x01" + entry(5, var(0) + b"\x07" * 32) + entry(4, var(0)) + bytes(8)
    yield "part_origin", b"\x04\x01" + entry(5, var(1)) + bytes(8)
    text = (f"twofold-backup 1\ntwofold 0.1.0\ncreated 2026-11-30T03:14:15Z\napplied-lsn 4711\nchannels 2\n"
            f"messages 1000\nfile store.db 1064960 {'ab' * 32}\n")
    yield "manifest", b"\x05" + text.encode()
    yield "manifest_later", b"\x05" + text.replace("backup 1", "backup 2").encode()
    yield "manifest_number", b"\x05" + text.replace("4711", "18446744073709551616").encode()


# -- programs of a log, of a spool, of a store (fuzz_log.c, fuzz_spool.c, fuzz_store.c say what the bytes mean) --


def log():
    append, trim, damaged, torn = b"\x04\x05hello", b"\x00\x07", b"\x18\x07\x05\x01", 0xA1
    group = b"\x01\x02\x00" + append + trim
    yield "in_order", b"\x03\x00" + b"\x00\x00\x02\x00" + group + b"\x01\x01\x00" + trim
    yield "two_files", b"\x03\x01" + b"\x00\x00\x01\x00" + group + b"\x01\x00\x01\x00" + b"\x01\x01\x09" + append
    yield "torn_end", b"\x03\x00" + b"\x00\x00\x02\x00" + group + bytes([torn, 1, 0]) + trim + b"\x04"
    yield "torn_behind_damage", (b"\x03\x00" + b"\x00\x00\x02\x00" + b"\x01\x01\x00" + damaged +
                                 bytes([torn, 2, 0]) + append * 2 + b"\x0c")
    yield "index_within_group", b"\x03\x01" + b"\x00\x00\x01\x00" + b"\x01\x03\x00" + trim + append + damaged
    yield "highest", b"\x01\x00" + b"\x00\x00\x01\x00" + b"\x01\x01\xff\x00" + trim
    yield "headers", b"\x01\x00" + b"".join(bytes([n, n + 1, 1, 9]) + b"\x01\x01\x05" + trim for n in range(4))


def spool():
    message = b"\x00\x01\x00\x01c\x00\x02bb\x00\x00"
    notes = b"\x01\x00\x00\x00" + b"\x02\x01\x03\x05"
    yield "messages", b"\x01\x00" + b"\x00" + notes + message * 3
    yield "done", b"\x03\x00" + b"\x00" + b"\x01\x02\x02\x02" * 2 + message * 3
    yield "other_owner", b"\x01\x00" + b"\x30" + notes
    yield "other_channel", b"\x01\x00" + b"\x03\x04\x1b[0m" + notes
    yield "later", b"\x01\x00" + b"\x0c" + notes
    yield "highest_answered", b"\x01\x00" + b"\x00" + b"\x01\xff\x00\x00\x00" + b"\x02\xff\x00\x00\x00" + message
    yield "highest_serial", b"\x01\x00" + b"\x00" + b"\xff\x00\x00\x00\x00" + b"\xff\x01\x00\x00\x00" + message


def store():
    for mode in range(4):
        yield f"sound_{mode}", bytes([mode]) + bytes(8)
        yield f"ops_{mode}", bytes([mode, 0, 6, 0]) + b"\x00\x08\x02\x43\x45\x06" + bytes(4)
        yield f"lost_{mode}", bytes([mode, 0, 1, 7]) + b"\x08" + bytes(4)
        yield f"trim_beyond_{mode}", bytes([mode, 0, 1, 0]) + b"\x23\x73" + bytes(4)
        yield f"head_{mode}", bytes([mode, 1]) + b"\x02\x05\x00\x05" + bytes(8)
        yield f"block_{mode}", bytes([mode, 1]) + b"\x01\x00\x00\x00\x00\x00\x40\x04zzzz" + bytes(8)
        yield f"no_state_{mode}", bytes([mode, 1]) + b"\x08\x00\x00" + bytes(8)
        yield f"applied_{mode}", bytes([mode, 1]) + b"\x02\x00\x00\xff\x00" + bytes(8)
        yield f"flips_{mode}", bytes([mode, 0, 0, 0, 2]) + b"\x00\x00\x00\x64\xff\xf0\x00\x30\x00\x00" + bytes(4)


def main():
    for make in (calls, config, values, pub_input, output, stored, log, spool, store):
        folder = os.path.join(HERE, "corpus", make.__name__)
        os.makedirs(folder, exist_ok=True)
        for name, data in make():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(data)


main()
