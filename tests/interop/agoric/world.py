"""What is true of a random program: who hosts which object, what was sent, to what each promise was resolved. Every end
and every connection is held against it. Names: objects "X.o3", promises "X.p4" (made by an application) and "r12" (the
answer to message 12); the text of each message and resolution says which one it is, so that whoever sees it knows what
it should mention."""
import json
import re
from collections import Counter, defaultdict

import translator
import wire
from translator import Fault

OBJECT, DATA, REJECTION = wire.OBJECT, wire.DATA, wire.REJECTION
PING = "ping"
PING_TEXT = '#["ping",[]]'
NO_TARGET = re.compile(r"data is not callable|cannot_send_to_data")


class Promise:
    """foreign: a vat that decides it may resolve it to an object that it does not host; then nobody sends it promises
    or asks for answers (see README.md, B1). free: its decider is our node, and nothing is to be minded."""

    def __init__(self, name, index, decider, foreign=False, free=False, message=None):
        self.name, self.index, self.decider, self.foreign, self.free = name, index, decider, foreign, free
        self.message = message      # whose answer it is
        self.resolution = None      # (kind, object or None, refs), given by an application

    def is_foreign(self):
        return self.foreign and not self.free


class Sent:
    """A message."""

    def __init__(self, number, sender, target, refs, wants):
        self.number, self.sender, self.target, self.refs, self.wants = number, sender, target, refs, wants
        self.arrived = False
        self.before = set()  # numbers of the messages that this sender sent to the same reference before

    @property
    def result(self):
        return f"r{self.number}"


def is_object(name):
    return ".o" in name


def host(name):
    return name.split(".")[0]


def text_of(tag, refs):
    return "#" + json.dumps([tag, [(f"${i}.Alleged: x" if is_object(ref) else f"&{i}") for i, ref in enumerate(refs)]])


def tag_of(text):
    try:
        return json.loads(text[1:])[0]
    except (ValueError, LookupError):
        return None


NOT_CALLABLE = (REJECTION, None, ())


class World:
    def __init__(self):
        self.ends, self.links = {}, []
        self.messages, self.promises = [], {}
        self.counters = defaultdict(int)
        self.happened = Counter()
        self.log = []  # what was done, for people

    def note(self, text):
        self.log.append(text)

    def count(self, what):
        self.counters[what] += 1
        return self.counters[what]

    # -- the program

    def new_object(self, end):
        return f"{end.name}.o{self.count(end.name + '.o')}"

    def new_promise(self, end, foreign, free):
        name = f"{end.name}.p{self.count(end.name + '.p')}"
        self.promises[name] = Promise(name, self.count("promise"), end.name, foreign, free)
        return name

    def new_message(self, end, target, refs, wants, foreign, free):
        message = Sent(len(self.messages), end.name, target, tuple(refs), wants)
        self.messages.append(message)
        if wants:
            self.promises[message.result] = Promise(message.result, self.count("promise"), None, foreign, free, message)
        return message

    @staticmethod
    def message_text(message):
        return text_of(f"m{message.number}", message.refs)

    def value_text(self, name):
        kind, _, refs = self.promises[name].resolution
        if kind == OBJECT:
            return translator.OBJECT_BODY
        return text_of(("value of " if kind == DATA else "error of ") + name, refs)

    def settle(self, name):
        """What a promise is resolved to, by its decider or because the message could not be delivered; None: not
        yet."""
        undelivered = 0
        while True:
            promise = self.promises[name]
            message = promise.message
            if promise.resolution or not message or message.arrived or is_object(message.target):
                break
            undelivered += 1
            name = message.target
        settled = promise.resolution
        for _ in range(undelivered):
            if settled is None or settled[0] == OBJECT:
                return None
            settled = NOT_CALLABLE if settled[0] == DATA else settled
        return settled

    def final_target(self, message):
        """The object that a message goes to; None: not known, or there is none."""
        if is_object(message.target):
            return message.target
        settled = self.settle(message.target)
        return settled[1] if settled and settled[0] == OBJECT else None

    # -- what ends and connections see

    def names_in(self, text):
        """What a text mentions: of a message, or of the resolution that it tells. Nothing for what nodes say by
        themselves."""
        tag = tag_of(text) or ""
        if not isinstance(tag, str):
            return ()
        match = re.fullmatch(r"m(\d+)", tag)
        if match:
            return self.messages[int(match.group(1))].refs
        match = re.fullmatch(r"(?:value|error) of (\S+)", tag)
        return self.promises[match.group(1)].resolution[2] if match else ()

    def arrives(self, end, target, text):
        """A message is heard by an application, as one for its object `target`."""
        message = self.messages[int(tag_of(text)[1:])]
        if message.arrived:
            raise Fault(f"message {message.number} arrives twice")
        if target != self.final_target(message) or host(target) != end.name:
            raise Fault(f"message {message.number} for {message.target} arrives at {target} of {end.name}")
        for number in message.before:
            before = self.messages[number]
            if not before.arrived and self.final_target(before) == target:
                raise Fault(f"P6: message {message.number} overtakes {number}")
        message.arrived = True
        self.happened["delivered"] += 1
        if message.wants:
            self.promises[message.result].decider = end.name
        return message

    def check_resolution(self, end, name, kind, value, text):
        """An application hears of a resolution. value: the object, named."""
        settled = self.settle(name)
        if settled is None or settled[0] != kind:
            raise Fault(f"{end.name} hears that {name} is {kind} {value or text}, but it is {settled}")
        if kind == OBJECT:
            good = value == settled[1]
        elif settled is NOT_CALLABLE:
            good = NO_TARGET.search(text) is not None
        else:
            source = self.source_of(name)
            good = text == self.value_text(source)
        if not good:
            raise Fault(f"{end.name} hears that {name} is {value or text}, but it is {settled}")
        self.happened["resolved"] += 1

    def source_of(self, name):
        """Whose resolution a promise has: its own, or that of what its message could not be delivered to."""
        while not self.promises[name].resolution:
            name = self.promises[name].message.target
        return name

    # -- at rest

    def pending(self):
        """Messages that wait for a promise."""
        return [message for message in self.messages
                if not message.arrived and not is_object(message.target) and self.settle(message.target) is None]

    def waiting_objects(self):
        """What they mention, and what the promises that they mention were resolved to: anybody on their way may know
        those."""
        names, objects = [ref for message in self.pending() for ref in message.refs], set()
        seen = set(names)
        while names:
            name = names.pop()
            if is_object(name):
                objects.add(name)
                continue
            settled = self.settle(name)
            more = set(settled[2] if settled else ()) - seen
            seen |= more
            names += more
        return objects

    def check_arrivals(self):
        for message in self.messages:
            if message.arrived:
                continue
            if is_object(message.target) or self.final_target(message):
                raise Fault(f"message {message.number} from {message.sender} for {message.target} was lost")

    def replay(self):
        return "\n".join(self.log)


class Link:
    """A connection: two queues of our session messages, and the names that each ref should have by what was said on
    it."""

    def __init__(self, world, first, second):
        self.world = world
        self.ends = (first, second)  # (end, number of its connection)
        self.queues = ([], [])       # by whom it goes to
        self.names = {wire.Ref(0, 0, side): f"{end.name}.o0" for side, (end, _) in enumerate(self.ends)}  # by ref
        self.pinned = (set(), set())  # by end: objects that a vat there may keep for ever (B3)

    def push(self, side, raw):
        """Side: of whom it comes from."""
        self.watch(raw)
        self.queues[1 - side].append(raw)

    def deliver(self, side):
        end, connection = self.ends[side]
        late = end.receive(connection, self.queues[side].pop(0))
        self.pinned[side].update(self.names[ref] for ref in late)

    def bind(self, ref, name):
        if self.names.setdefault(ref, name) != name:
            between = " and ".join(end.name for end, _ in self.ends)
            raise Fault(f"{ref} between {between} was {self.names[ref]}, now it is {name}")

    def watch(self, raw):
        message = wire.read(raw)
        body = message.body
        if message.kind == wire.DELIVER and body.method != PING:
            text = body.args.decode()
            if text != translator.OBJECT_BODY:  # (of a forgotten promise: nothing says of which)
                for ref, name in zip(body.refs, self.world.names_in(text), strict=True):
                    self.bind(ref, name)
            if body.result is not None:
                self.bind(body.result, "r" + tag_of(text)[1:])
            self.world.happened["forgotten"] += body.method == translator.FORGOTTEN
        elif message.kind == wire.RESOLVE:
            self.watch_resolutions(body)

    def watch_resolutions(self, body):
        for each in body:
            if each.promise not in self.names:
                raise Fault(f"{each.promise} is resolved before it was told")
            name = self.names[each.promise]
            if each.kind == OBJECT:
                settled = self.world.settle(name)
                if settled is None or settled[0] != OBJECT:
                    raise Fault(f"{name} is resolved to an object, but it is {settled}")
                self.bind(each.value, settled[1])
            else:
                named = self.world.names_in(each.value.decode(errors="replace"))
                for ref, mentioned in zip(each.refs, named, strict=True):
                    self.bind(ref, mentioned)
