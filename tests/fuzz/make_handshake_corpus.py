#!/usr/bin/env python3
"""Writes the seeds of corpus/negotiate and corpus/open: the maps of proto/PROTOCOL.md, what stands at a border, and
programs of packets. Run it after a change of the format and commit what changes; inputs that libFuzzer found stay.

    tests/fuzz/make_handshake_corpus.py
"""
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
PROTOCOL = os.path.join(HERE, "..", "..", "proto", "PROTOCOL.md")

# Sets (all), version 1, session, last generation, receive_next, send_floor, window, room for output.
NO_SESSION = bytes([0xBF, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0])
OWN_SESSION = bytes([0x7F, 0, 9, 2, 4, 2, 8, 0, 0, 0, 90])
LEAST = "a876657273696f6e739101 a6726f7574657391a673747265616d a8696e7374616e636505"
MAP_EDGES = {
    "empty": "80",
    "claims_map32": "dfffffffff",
    "claims_list": "81a876657273696f6e73ddffffffff",
    "repeated_key": "84" + LEAST + "a8696e7374616e636505",
    "unknown_keys": "85" + LEAST + "a16192c0c3 a162 81a163c4020102",
    "resume_9": "84" + LEAST + "a6726573756d6582 a773657373696f6e09 a46e65787404",
    "limits_low": "84" + LEAST + "a66c696d69747381ab6d61785f6d65737361676501",
    "limits_high": "84" + LEAST + "a66c696d69747381ab6d61785f6d657373616765cfffffffffffffffff",
    "welcome_least": "85" + LEAST[23:] + "a776657273696f6e01 aa67656e65726174696f6e01 a773657373696f6e4d",
    "trailing": "80c0",
}

SEAL, DELIVER, DAMAGE, RAW, BACK, ACK = 0, 2, 4, 5, 6, 7


def examples():
    with open(PROTOCOL, encoding="utf-8") as file:
        text = file.read()
    for name, body in re.findall(r"^```hex map (.*)\n((?:.*\n)*?)```$", text, re.MULTILINE):
        yield "doc_" + name.replace(" ", "_"), bytes.fromhex(re.sub(r"#.*", "", body))


def in_order(count):
    for i in range(count):
        yield from (SEAL, i % 32, DELIVER, i % 32)


def programs():
    yield "in_order", bytes([0x02, *in_order(20)])
    yield "phases", bytes([0x00, *(b for i in range(12) for b in (SEAL, i, DELIVER, i, BACK, 0))])
    yield "phases_by_ack", bytes([0x03, *(b for i in range(12) for b in (SEAL, i, DELIVER, i, ACK, i))])
    yield "backwards", bytes([0x04, *(b for i in range(12) for b in (SEAL, i)), *(b for i in range(11, -1, -1) for b in (DELIVER, i))])
    yield "repeated", bytes([0x0E, SEAL, 0, *(DELIVER, 0) * 5])
    yield "gaps", bytes([0x0F, *(b for i in range(8) for b in (SEAL, 0xE0 | i, DELIVER, i))])
    yield "damaged", bytes([0x0E, SEAL, 0, *(b for at in range(38) for b in (DAMAGE, 0, at, 1)), DELIVER, 0])
    yield "cut", bytes([0x0F, SEAL, 0, *(b for at in range(38) for b in (DAMAGE, 0, at, 0)), DELIVER, 0])
    yield "forgeries", bytes([0x8E, SEAL, 0, *(b for at in range(9) for b in (DAMAGE, 0, 20, 1)), DELIVER, 0, BACK, 0])
    yield "raw", bytes([0x0E, RAW, 0, 0, RAW, 4, 30, *range(30), RAW, 6, 60, *range(60), RAW, 1, 70, *range(70)])
    yield "used_up", bytes([0x00, *(b for i in range(8) for b in (SEAL, i))])


def write(target, seeds):
    folder = os.path.join(HERE, "corpus", target)
    os.makedirs(folder, exist_ok=True)
    for name, data in seeds:
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)


def main():
    maps = list(examples()) + [(name, bytes.fromhex(text)) for name, text in MAP_EDGES.items()]
    write("negotiate", [("new_" + name, NO_SESSION + data) for name, data in maps])
    write("negotiate", [("old_" + name, OWN_SESSION + data) for name, data in maps])
    write("open", programs())


main()
