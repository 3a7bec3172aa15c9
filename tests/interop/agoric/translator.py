"""Between a comms vat and what speaks our protocol: the vat's text lines become our session messages, and back.

It stands at the vat's end of a connection and plays our protocol's part for it. What the two protocols do differently:

- Numbers. A line may become no message or several, a message several lines; acks are counted over. The vat's acks are
  absolute.
- References. The vat says "ro-20": an object, the number given by who says it; "+": by who hears it. Names here are as
  the vat says them. Ours are numbered without gaps in the order in which they are mentioned; the roots are bootstrapped
  by index.
- Drops. dropExport says that the vat cannot reach an object, retireExport that it cannot even recognise it: the second
  one is our DROP. Ours becomes both.
- Unresolved promises. The vat knows no drop of them. One that our side has dropped is remembered here: when the vat
  speaks of it again it gets a new number; when it is resolved, our side is only shown what the resolution mentions
  (FORGOTTEN), so that it drops that.
- Resolutions. Ours say whether they are an object; the vat's body does. The vat tells a batch only to who waits for the
  first promise of it, so each of our resolutions is a line of its own, unless they mention each other. What is cut in
  pieces counts as processed with the first piece, so what the vat says to lines of one message is to be handed in after
  the last; a drop of what a later piece mentions is passed over, as the exporter would.
- Acks. Ours come alone if they must; the vat counts a line with an unknown verb, honours its ack, and complains."""
import json
import re

import wire
from wire import Deliver, Message, Ref, Resolution

VAT_ROOT = 11    # the index of the vat's root object
OUR_BASE = 1000  # ours has number 0, and so this index

FORGOTTEN = "forgotten"  # the method of a message that shows the refs of a resolution that nobody waits for

ONE_OBJECT = re.compile(r'#"\$0(\.[^"]*)?"')
OBJECT_BODY = '#"$0.Alleged: x"'


class Fault(Exception):
    """One of the two ends broke its protocol, or did what programs here must not make it do."""


def flip(name):
    """The same reference as the other end says it."""
    return name[:2] + ("-" if name[2] == "+" else "+") + name[3:]


def is_promise(name):
    return name[1] == "p"


def error_body(data):
    """A rejection that our node made by itself (D8), as the vat writes an error; any other is the vat's kind of
    text."""
    if data[:1] == b"#":
        return data.decode()
    reader = wire.Reader(data[1:])  # behind the header of a map of two
    _, code, _, _ = (reader.value() for _ in range(4))
    return "#" + json.dumps({"#error": code, "name": "Error"})


def method_of(text):
    try:
        method = json.loads(text[1:])[0]
    except (ValueError, LookupError, TypeError):
        return "call"
    return method[:64] if isinstance(method, str) and method else "call"


def split_line(line):
    head, _, text = line.partition(";")
    return head.split(":"), text


def mentioners_first(resolutions):
    """Batches of resolutions: each alone and behind those that mention it; together what is in a cycle or behind
    one."""
    left, batches = list(resolutions), []
    while left:
        mentioned = {ref for each in left for ref in each.refs if ref != each.promise}
        free = next((each for each in left if each.promise not in mentioned), None)
        batch = [free] if free else left
        batches.append(batch)
        left = [each for each in left if each not in batch]
    return batches


class Translator:
    def __init__(self, vat_side):
        self.side = vat_side
        self.ours = {f"ro-{VAT_ROOT}": Ref(0, 0, vat_side), f"ro+{OUR_BASE}": Ref(0, 0, 1 - vat_side)}
        self.vats = {ref: name for name, ref in self.ours.items()}
        self.next = {0: 1, 1: 0}        # numbers of the vat's side, by kind
        self.heard_next = {0: 1, 1: 0}  # of our side
        self.resolved = set()           # promises that the vat has resolved
        self.dropped = set()            # promises of the vat that our side does not know any more
        self.mentioned = {}             # by ref: the number of the last message to our side that mentions it
        self.late = []                  # objects mentioned in the last message, if it went to what the vat had resolved
        # Messages to our side, lines from the vat: the first covered[n] messages say all of the first n lines.
        self.sent, self.covered, self.processed, self.spoken_ack = 0, [0], 0, 0
        # Lines to the vat, messages from our side: the first n lines say the first told[n] messages, or begin to; the
        # last line that a reference is mentioned in.
        self.heard, self.told, self.vat_ack, self.counted = 0, [0], 0, 0
        self.told_last = {}

    # -- from the vat

    def from_vat(self, text):
        """Messages for our side, as bytes."""
        number, ack, body = text.split(":", 2)
        if int(number) != len(self.covered) or not self.vat_ack <= int(ack) < len(self.told):
            raise Fault(f"the vat numbers {text!r}; {len(self.covered)} was due, {len(self.told) - 1} were sent to it")
        self.vat_ack = int(ack)
        verb = body.partition(":")[0]
        if verb == "deliver":
            bodies = [self.deliver_from_vat(body)]
        elif verb == "resolve":
            bodies = self.resolve_from_vat([split_line(line) for line in body.split("\n")])
        elif verb == "gc":
            bodies = self.drop_from_vat([line.split(":") for line in body.split("\n")])
        else:
            raise Fault(f"the vat says {text!r}")
        self.covered.append(self.sent)
        return bodies

    def emit(self, kind, body):
        delta = self.told[self.vat_ack] - self.counted
        self.counted += delta
        self.sent += 1
        return wire.write(Message(kind, self.sent - 1, delta, body))

    def mention(self, name):
        if name in self.resolved:
            raise Fault(f"B1: the vat speaks of {name}, which it has resolved")
        if name not in self.ours:
            if name[2] == "+" and name not in self.dropped:
                raise Fault(f"the vat speaks of {name}, which it was never told")
            self.add(name)
        ref = self.ours[name]
        self.mentioned[ref] = self.sent
        return ref

    def add(self, name):
        kind = int(is_promise(name))
        ref = Ref(self.next[kind], kind, self.side)
        self.next[kind] += 1
        self.ours[name], self.vats[ref] = ref, name
        self.dropped.discard(name)
        return ref

    def deliver_from_vat(self, body):
        (_, target, result, *slots), text = split_line(body)
        if result and (result in self.ours or result in self.resolved or result in self.dropped):
            raise Fault(f"the vat asks for {result} as a result, which was known before")
        if target not in self.ours:
            raise Fault(f"the vat sends to {target}")
        target = self.ours[target]
        result = self.add(result) if result else None
        refs = [self.mention(name) for name in slots]
        return self.emit(wire.DELIVER, Deliver(target, method_of(text), text.encode(), refs, result))

    def resolve_from_vat(self, lines):
        left = {name: (how, slots, text) for (_, how, name, *slots), text in lines}
        messages = []
        while True:
            resolutions = self.resolve_known(left)
            if resolutions:
                messages.append(self.emit(wire.RESOLVE, resolutions))
            if not left:
                return messages
            # What is left is what our side has dropped, and what only that mentions.
            name = next(iter(left))
            _, slots, text = left.pop(name)
            if name not in self.dropped:
                raise Fault(f"the vat resolves {name}, which is nothing to the first promise: {lines}")
            self.dropped.discard(name)
            self.resolved.add(name)
            if slots:
                refs = [self.mention(slot) for slot in slots]
                target = Ref(0, 0, 1 - self.side)
                messages.append(self.emit(wire.DELIVER, Deliver(target, FORGOTTEN, text.encode(), refs, None)))

    def resolve_known(self, left):
        """Takes from `left` what our side knows, or comes to know by what is taken: that in the order of its
        numbers."""
        known = [name for name in left if name in self.ours]
        resolutions = []
        while known:
            name = known.pop(0)
            how, slots, text = left.pop(name)
            promise = self.ours[name]
            for slot in slots:
                is_new = slot in left and slot not in self.ours
                self.mention(slot)
                if is_new:
                    known.append(slot)
            resolutions.append(self.resolution(promise, how, [self.ours[slot] for slot in slots], text))
        for each in resolutions:
            self.resolved.add(self.vats[each.promise])
        for each in resolutions:
            self.ours.pop(self.vats[each.promise])
        return resolutions

    def resolution(self, promise, how, refs, text):
        if how == "reject":
            return Resolution(promise, wire.REJECTION, text.encode(), refs)
        if ONE_OBJECT.fullmatch(text) and not refs[0].is_promise:
            return Resolution(promise, wire.OBJECT, refs[0], [])
        return Resolution(promise, wire.DATA, text.encode(), refs)

    def drop_from_vat(self, lines):
        if any(verb == "retireImport" for _, verb, _ in lines):
            raise Fault("the vat retires an object that our side never dropped alone")
        retired = [name for _, verb, name in lines if verb == "retireExport"]
        refs = [self.ours[name] for name in retired if not self.is_told_again(name)]
        return [self.emit(wire.DROP, refs)] if refs else []

    def is_told_again(self, name):
        """By a later line of the very message to which the vat says that it drops it."""
        last = self.told_last[name]
        return last > self.vat_ack and self.told[last] == self.told[self.vat_ack]

    # -- to the vat

    def to_vat(self, raw):
        """Lines for the vat."""
        message = wire.read(raw)
        if message.number != self.heard:
            raise Fault(f"our side sends number {message.number}; {self.heard} was due")
        self.processed += message.ack_delta
        if self.processed > self.sent:
            raise Fault(f"our side acks {self.processed} messages of {self.sent}")
        self.late = []
        if message.kind == wire.DELIVER:
            lines = [self.deliver_to_vat(message.body)]
        elif message.kind == wire.RESOLVE:
            lines = self.resolve_to_vat(message.body)
        elif message.kind == wire.DROP:
            lines = self.drop_to_vat(message.body)
        else:
            lines = ["ack:"]
        self.heard += 1
        first = len(self.told)
        self.told += [self.heard] * len(lines)
        for number, line in enumerate(lines, first):
            self.told_last.update((flip(name), number) for part in line.split("\n") for name in split_line(part)[0][3:])
        return [f"{first + i}:{self.ack_to_vat()}:{line}" for i, line in enumerate(lines)]

    def ack_to_vat(self):
        while self.spoken_ack + 1 < len(self.covered) and (self.covered[self.spoken_ack] < self.processed or
                                                           self.covered[self.spoken_ack + 1] <= self.processed):
            self.spoken_ack += 1
        return self.spoken_ack

    def name_for_vat(self, ref):
        if ref not in self.vats:
            if ref.side == self.side or ref.number != self.heard_next[ref.is_promise]:
                raise Fault(f"our side speaks of {ref}")
            self.heard_next[ref.is_promise] += 1
            name = f"r{'op'[ref.is_promise]}+{OUR_BASE + ref.number}"
            self.ours[name], self.vats[ref] = ref, name
        return flip(self.vats[ref])

    def slots_for_vat(self, refs):
        return "".join(":" + self.name_for_vat(ref) for ref in refs)

    def deliver_to_vat(self, body):
        if body.target not in self.vats:
            raise Fault(f"our side sends to {body.target}")
        if self.vats[body.target] in self.resolved:
            self.late = [ref for ref in body.refs if not ref.is_promise]
        result = ""
        if body.result is not None:
            if body.result in self.vats:
                raise Fault(f"our side asks for {body.result} as a result, which was known before")
            result = self.name_for_vat(body.result)
        slots = self.slots_for_vat(body.refs)
        return f"deliver:{self.name_for_vat(body.target)}:{result}{slots};{body.args.decode()}"

    def resolve_to_vat(self, resolutions):
        for each in resolutions:  # names are given in the order in which they are said
            self.slots_for_vat([each.promise, *self.mentions(each)])
        for each in resolutions:
            if self.ours.pop(self.vats[each.promise], None) is None:
                raise Fault(f"our side resolves {each.promise} again")
        named = [each._replace(refs=self.mentions(each)) for each in resolutions]
        return ["\n".join(self.resolve_line(each) for each in batch) for batch in mentioners_first(named)]

    @staticmethod
    def mentions(resolution):
        return [resolution.value] if resolution.kind == wire.OBJECT else resolution.refs

    def resolve_line(self, each):
        how = "reject" if each.kind == wire.REJECTION else "fulfill"
        text = OBJECT_BODY if each.kind == wire.OBJECT else error_body(each.value)
        return f"resolve:{how}:{self.name_for_vat(each.promise)}{self.slots_for_vat(each.refs)};{text}"

    def is_shown_again(self, ref):
        """By a later message of the very line to which our side says that it drops it."""
        return self.processed <= self.mentioned.get(ref, -1) < self.covered[self.ack_to_vat()]

    def drop_to_vat(self, refs):
        lines = []
        for ref in refs:
            name = self.vats.get(ref)
            known = name is not None and self.ours.get(name) == ref
            if not ref.is_promise and name is not None and self.is_shown_again(ref):
                continue
            if not ref.is_promise and name is not None:
                lines += [f"gc:{verb}:{flip(name)}" for verb in ("dropExport", "retireExport")]
            elif not known and name not in self.resolved:
                raise Fault(f"our side drops {ref}")
            elif known and self.mentioned.get(ref, -1) < self.processed:
                del self.ours[name]
                self.dropped.add(name)
        return ["\n".join(lines)] if lines else ["ack:"]
