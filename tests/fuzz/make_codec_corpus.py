#!/usr/bin/env python3
"""Writes the seeds of corpus/frame, corpus/message and corpus/mp: the examples of proto/PROTOCOL.md, and what stands at
a border. Run it after a change of the format and commit what changes; inputs that libFuzzer found stay as they are.

    tests/fuzz/make_codec_corpus.py
"""
import os
import re
import struct

HERE = os.path.dirname(os.path.abspath(__file__))
PROTOCOL = os.path.join(HERE, "..", "..", "proto", "PROTOCOL.md")

FRAME_DECISION = b"\x07"
MP_DECISIONS = bytes([16, 0xFF, 0xFF, 8, 0x00, 0x29, 0xFA, 0xFB, 0x2C, 0x2D, 0x06, 0x07])

# MessagePack that must be refused, or is the last that is not.
MP_EDGES = {
    "claims_array32": "dd7fffffff",
    "claims_map32": "df7fffffff",
    "claims_bin32": "c6ffffffff00",
    "ext8": "c70100aa",
    "unused": "c1",
    "deep16": "91" * 16 + "c0",
    "deep17": "91" * 17 + "c0",
    "every_integer": "9e 00 7f cc80 cdffff ceffffffff cfffffffffffffffff e0 ff d080 d18000 d280000000 "
                     "d38000000000000000 d005 d37fffffffffffffff",
    "strings": "95 a0 a161 d90161 da000161 db0000000161",
    "bins": "93 c400 c5000161 c60000000161",
    "map": "84 a161 01 a162 c0 01 c3 02 81 a0 ca3f800000",
    "floats": "92 ca7fc00000 cb7ff8000000000000",
    "wide_containers": "dc0002 dd00000001 c0 de0001 01 df00000000",
    "trailing": "c0c0",
}
MESSAGE_EDGES = {
    "claims_refs": "94030000dd7fffffff",
    "wide_integers": "dc0003 d005 d10000 cfffffffffffffffff",
    "promise_to_promise": "94020000 91 93 02 00 02",
    "unknown_kind": "93060000",
    "revoke_mode": "9404000091940402c40090",
    "revoke_promise": "9404000091940200c40090",
}
FRAME_EDGES = {
    "link_ack_top": "04000c fffffffffffffffd 00 01 00 00",
    "link_ack_overflow": "04000c fffffffffffffffe 00 01 00 00",
    "packet_ack_zero": "050007 00 00 05 02 02 01 00",
    "packet_ack_underflow": "050007 00 00 05 02 02 01 01",
    "long_forms": "050010 c000000000000001 8000000a 4005 01 00 00",
    "unknown_type": "0b0000",
    "cut": "0600080123",
    "close_longest": "0a0079 00" + "61" * 120,
}


def examples(kind):
    """The hex blocks of PROTOCOL.md whose name starts with that word: (name, bytes)."""
    with open(PROTOCOL, encoding="utf-8") as file:
        text = file.read()
    for name, body in re.findall(r"^```hex (.*)\n((?:.*\n)*?)```$", text, re.MULTILINE):
        if name.split()[0] == kind:
            digits = re.sub(r"#.*", "", body)
            yield "doc_" + "_".join(name.split()[1:]), bytes.fromhex(digits)


def write(target, seeds):
    folder = os.path.join(HERE, "corpus", target)
    os.makedirs(folder, exist_ok=True)
    for name, data in seeds:
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)


def edges(table):
    return [(name, bytes.fromhex(text)) for name, text in table.items()]


def many_ranges():
    """A LINK_ACK and a PACKET_ACK with 32 ranges."""
    link = struct.pack(">Q", 1000) + b"\0" + b"\x20" + b"\x00\x01" * 32
    packet = b"\x01\x0a\x7f\xff\x20" + b"\x03" + b"\x00\x05" * 31
    return [
        ("link_ack_32_ranges", b"\x04" + struct.pack(">H", len(link)) + link),
        ("packet_ack_32_ranges", b"\x05" + struct.pack(">H", len(packet)) + packet),
    ]


def main():
    frames = list(examples("frame"))
    messages = list(examples("message"))
    series = [("doc_all", b"".join(data for _, data in frames))]
    all_frames = frames + series + edges(FRAME_EDGES) + many_ranges()
    write("frame", [(name, FRAME_DECISION + data) for name, data in all_frames])
    write("message", messages + edges(MESSAGE_EDGES))
    write("mp", [(name, MP_DECISIONS + data) for name, data in messages + edges(MP_EDGES)])


main()
