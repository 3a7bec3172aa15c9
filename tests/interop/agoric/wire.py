"""The session messages of proto/PROTOCOL.md (M1 to M5) as Python values, and references as triples.

Written from that document alone: a second reader and writer of the bytes. What it does not expect raises Malformed."""
from collections import namedtuple

DELIVER, RESOLVE, DROP, ACK = 1, 2, 3, 5
OBJECT, DATA, REJECTION = 0, 1, 2

Message = namedtuple("Message", "kind number ack_delta body")
Deliver = namedtuple("Deliver", "target method args refs result")  # result: None for none
Resolution = namedtuple("Resolution", "promise kind value refs")   # value: a ref (OBJECT) or bytes
Ref = namedtuple("Ref", "number is_promise side")


class Malformed(Exception):
    """Bytes that are no message."""


def ref_number(ref):
    return ref.number * 4 + ref.is_promise * 2 + ref.side


def ref_of(number):
    return Ref(number >> 2, (number >> 1) & 1, number & 1)


def pack_head(out, small, small_max, codes, count):
    """The header of a str, bin or array. codes: for one, two and four bytes of length; None: there is none."""
    if small is not None and count <= small_max:
        out.append(small | count)
        return
    for size, code in zip((1, 2, 4), codes):
        if code is not None and count < 1 << (8 * size):
            out.append(code)
            out += count.to_bytes(size, "big")
            return
    raise ValueError("too long")


def pack(out, value):
    if value is None:
        out.append(0xc0)
    elif isinstance(value, int):
        if value < 128:
            out.append(value)
        else:
            size = next(size for size in (1, 2, 4, 8) if value < 1 << (8 * size))
            out.append({1: 0xcc, 2: 0xcd, 4: 0xce, 8: 0xcf}[size])
            out += value.to_bytes(size, "big")
    elif isinstance(value, str):
        raw = value.encode()
        pack_head(out, 0xa0, 31, (0xd9, 0xda, 0xdb), len(raw))
        out += raw
    elif isinstance(value, bytes):
        pack_head(out, None, 0, (0xc4, 0xc5, 0xc6), len(value))
        out += value
    else:
        pack_head(out, 0x90, 15, (None, 0xdc, 0xdd), len(value))
        for item in value:
            pack(out, item)


class Reader:
    def __init__(self, raw):
        self.raw, self.at = raw, 0

    def take(self, count):
        if self.at + count > len(self.raw):
            raise Malformed("too short")
        self.at += count
        return self.raw[self.at - count:self.at]

    def unsigned(self, size):
        return int.from_bytes(self.take(size), "big")

    def value(self, depth=0):
        code = self.unsigned(1)
        if code < 0x80:
            return code
        if code == 0xc0:
            return None
        if 0xcc <= code <= 0xcf:
            return self.unsigned(1 << (code - 0xcc))
        if 0xa0 <= code <= 0xbf:
            return self.take(code & 31).decode()
        if 0xd9 <= code <= 0xdb:
            return self.take(self.unsigned(1 << (code - 0xd9))).decode()
        if 0xc4 <= code <= 0xc6:
            return self.take(self.unsigned(1 << (code - 0xc4)))
        if depth < 4 and (0x90 <= code <= 0x9f or code in (0xdc, 0xdd)):
            count = code & 15 if code < 0xa0 else self.unsigned(2 if code == 0xdc else 4)
            return [self.value(depth + 1) for _ in range(count)]
        raise Malformed(f"byte {code:02x}")


def refs_of(numbers):
    return [ref_of(number) for number in numbers]


def read(raw):
    """One message, the whole of it."""
    reader = Reader(raw)
    fields = reader.value()
    if reader.at != len(raw) or not isinstance(fields, list) or len(fields) < 3:
        raise Malformed("no message")
    kind, number, delta, *rest = fields
    if kind == DELIVER:
        target, method, args, refs, result = rest
        body = Deliver(ref_of(target), method, args, refs_of(refs), None if result is None else ref_of(result))
    elif kind == RESOLVE:
        body = []
        for promise, how, value, *refs in rest[0]:
            value = ref_of(value) if how == OBJECT else value
            body.append(Resolution(ref_of(promise), how, value, refs_of(refs[0]) if refs else []))
    elif kind == DROP:
        body = refs_of(rest[0])
    elif kind == ACK and not rest:
        body = None
    else:
        raise Malformed(f"kind {kind}")
    return Message(kind, number, delta, body)


def write(message):
    fields = [message.kind, message.number, message.ack_delta]
    body = message.body
    if message.kind == DELIVER:
        result = None if body.result is None else ref_number(body.result)
        fields += [ref_number(body.target), body.method, body.args, [ref_number(ref) for ref in body.refs], result]
    elif message.kind == RESOLVE:
        fields.append([
            [ref_number(each.promise), each.kind, ref_number(each.value)] if each.kind == OBJECT else
            [ref_number(each.promise), each.kind, each.value, [ref_number(ref) for ref in each.refs]] for each in body])
    elif message.kind == DROP:
        fields.append([ref_number(ref) for ref in body])
    out = bytearray()
    pack(out, fields)
    return bytes(out)
