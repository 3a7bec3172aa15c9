"""Recorded lines of comms vats and the bytes of our messages for them, both ways: the translator alone."""
import traceback

import wire
from translator import Fault, Translator

# Each example: steps of one connection on which the vat is the dialler. "<" a line of the vat and the messages for our
# side; ">" a message of our side and the lines for the vat. A message as hex, or (kind, body) where the bytes are
# another one's.
FOO = '#["foo",["$0.Alleged: x",7]]'
HI_PROMISE = '#["hi",["&0"]]'
HI_PROMISE_HEX = HI_PROMISE.encode().hex()

EXAMPLES = {
    "a message with an object of the sender and an answer": [
        ("<", f"1:0:deliver:ro+1000:rp-40:ro-20;{FOO}", ["9801000001a3666f6fc41c" + FOO.encode().hex() + "910402"]),
        # The object was forgotten at once, the answer comes: both are the vat's numbers.
        (">", "9403000191" + "04", ["1:1:gc:dropExport:ro+20\ngc:retireExport:ro+20"]),
        (">", "94020100" + "9194" + "0201c403" + b"#42".hex() + "90", ["2:1:resolve:fulfill:rp+40;#42"]),
        ("<", '2:2:deliver:ro+1000:;#["bye",[]]', ["9801010201a3627965c40b" + b'#["bye",[]]'.hex() + "90c0"]),
    ],
    "numbers of ours": [
        (">", "9801000000a26869c40a" + b'#["hi",[]]'.hex() + "910503",
         ['1:0:deliver:ro+11:rp-1000:ro-1001;#["hi",[]]']),
        ("<", '1:1:resolve:fulfill:rp+1000:ro+1001;#"$0.Alleged: x"', ["94020001" + "91" + "93030005"]),
        ("<", "2:1:gc:dropExport:ro+1001\ngc:retireExport:ro+1001", ["9403010091" + "05"]),
        (">", "93050102", ["2:2:ack:"]),
    ],
    "a rejection, and an object that can be recognised for a while": [
        (">", "9801000000a26869c40a" + b'#["hi",[]]'.hex() + "910503",
         ['1:0:deliver:ro+11:rp-1000:ro-1001;#["hi",[]]']),
        ("<", "1:1:gc:dropExport:ro+1001", []),
        ("<", "2:1:resolve:reject:rp+1000;#\"no\"", ["94020001" + "91" + "940302c405" + b'#"no"'.hex() + "90"]),
        ("<", "3:1:gc:retireExport:ro+1001", ["9403010091" + "05"]),
        (">", "93050102", ["2:3:ack:"]),
    ],
    "a rejection that our node makes by itself": [
        ("<", '1:0:deliver:ro+1000:rp-40;#["hi",[]]', ["9801000001a26869c40a" + b'#["hi",[]]'.hex() + "9002"]),
        (">", "9402000191" + "940202c442" + "82a4636f6465b3" + b"cannot_send_to_data".hex() + "a76d657373616765bf" +
         b"the target was resolved to data".hex() + "90",
         ['1:1:resolve:reject:rp+40;#{"#error": "cannot_send_to_data", "name": "Error"}']),
    ],
    "a batch of ours is told one by one, who mentions another first": [
        ("<", '1:0:deliver:ro+1000:rp-40;#["hi",[]]', ["9801000001a26869c40a" + b'#["hi",[]]'.hex() + "9002"]),
        ("<", '2:0:deliver:ro+1000:rp-41;#["hi",[]]', ["9801010001a26869c40a" + b'#["hi",[]]'.hex() + "9006"]),
        (">", "9402000292" + "940201c403" + b"#42".hex() + "90" + "940601c407" + b'#["&0"]'.hex() + "9102",
         ['1:2:resolve:fulfill:rp+41:rp+40;#["&0"]', "2:2:resolve:fulfill:rp+40;#42"]),
        ("<", '3:2:deliver:ro+1000:;#["hi",[]]', ["9801020101a26869c40a" + b'#["hi",[]]'.hex() + "90c0"]),
    ],
    "a promise that our side dropped": [
        ("<", f"1:0:deliver:ro+1000::rp-40;{HI_PROMISE}", ["9801000001a26869c40e" + HI_PROMISE_HEX + "9102c0"]),
        (">", "940300019102", ["1:1:ack:"]),
        # Spoken of again: it has a new number.
        ("<", f"2:1:deliver:ro+1000::rp-40;{HI_PROMISE}", ["9801010101a26869c40e" + HI_PROMISE_HEX + "9106c0"]),
        # This drop crosses the next mention and counts for nothing.
        ("<", f"3:1:deliver:ro+1000::rp-40;{HI_PROMISE}", ["9801020001a26869c40e" + HI_PROMISE_HEX + "9106c0"]),
        (">", "940301019106", ["2:2:ack:"]),
        (">", "940302019106", ["3:3:ack:"]),
        # What it is resolved to is only shown.
        ("<", '4:3:resolve:fulfill:rp-40:ro-20:rp-41;#["$0.Alleged: x","&1"]\nresolve:fulfill:rp-41;#1',
         [(wire.DELIVER, None), "9402040091" + "940a01c402" + b"#1".hex() + "90"]),
    ],
}

FAULTS = {
    "a number that is not the next": ["2:0:deliver:ro+1000:;#1"],
    "an ack of what was not sent": ["1:1:deliver:ro+1000:;#1"],
    "B1": ["1:0:deliver:ro+1000::rp-40;#1", "2:0:resolve:fulfill:rp-40;#1", "3:0:deliver:ro+1000::rp-40;#1"],
    "what it was never told": ["1:0:deliver:ro+1000::ro+1007;#1"],
}


def hex_of(raw, wanted):
    """As the example writes it."""
    return (wire.read(raw).kind, None) if isinstance(wanted, tuple) else raw.hex()


def check(steps):
    translator = Translator(0)
    for way, said, wanted in steps:
        if way == "<":
            heard = [hex_of(raw, each) for raw, each in zip(translator.from_vat(said), wanted, strict=True)]
        else:
            raw = bytes.fromhex(said)
            if wire.write(wire.read(raw)) != raw:
                raise Fault(f"{said} is written as {wire.write(wire.read(raw)).hex()}")
            heard = translator.to_vat(raw)
        if heard != wanted:
            raise Fault(f"{said}: {heard}, not {wanted}")


def check_fault(lines):
    translator = Translator(0)
    for line in lines[:-1]:
        translator.from_vat(line)
    try:
        translator.from_vat(lines[-1])
    except Fault:
        return
    raise Fault(f"{lines[-1]} was taken")


def failures():
    """What does not come out as it is written above."""
    found = []
    for checker, table in ((check, EXAMPLES), (check_fault, FAULTS)):
        for name, example in table.items():
            try:
                checker(example)
            except Exception:  # pylint: disable=broad-except
                found.append(f"{name}: {traceback.format_exc()}")
    return found
