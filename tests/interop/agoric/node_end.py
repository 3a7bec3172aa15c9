"""An application on our node, which tf-refs-driver hosts (refs_driver.c says how)."""
from collections import Counter

import translator
import wire
import world as worlds
from ends import End
from translator import Fault
from world import DATA, OBJECT, REJECTION, host, is_object

KINDS = {"object": OBJECT, "data": DATA, "rejection": REJECTION}


def in_hex(text):
    return text.encode().hex() or "-"


def from_hex(text):
    return "" if text == "-" else bytes.fromhex(text).decode(errors="replace")


class NodeEnd(End):
    """own: objects of this application and promises that it decides, by name. holds: how often it holds each id."""

    is_vat = False

    def __init__(self, world, name, driver):
        super().__init__(world, name)
        self.driver = driver
        self.own = {}
        self.live = set()     # ids of own objects that somebody may refer to
        self.decided = set()  # ids of promises that it is to resolve
        self.holds = Counter()
        self.weak = {}        # nothing, ever: our node knows no such thing
        self.unheard = set()  # ids that were mentioned to nobody
        self.events = []      # that the driver told and that were not taken yet
        root = int(self.command("new")["root"][0][0])
        self.own[f"{name}.o0"], self.names[root] = root, f"{name}.o0"

    def join(self, link, side):
        answer = self.command("connect " + ("dialler", "acceptor")[side])
        root = int(answer["connection"][0][1])
        self.holds[root] = 1
        self.connect(link, side, root)

    # -- the driver

    def command(self, line):
        """What it answers that is no event, by the first word. Events wait for take()."""
        self.driver.write(line)
        self.world.note(f"    {self.name} < {line}")
        answer = {}
        while True:
            told = self.driver.read()
            self.world.note(f"    {self.name} > {told}")
            word, *rest = told.split(" ")
            if word == "ok":
                return answer
            if word == "error":
                raise Fault(f"{self.name}: {' '.join(rest)}: {line}")
            if word in ("deliver", "resolved", "gone", "dropped", "revoked", "failed", "out"):
                self.events.append([word, *rest])
            else:
                answer.setdefault(word, []).append(rest)

    def do(self, line):
        self.command(line)
        self.take()

    def take(self):
        """Everything that the driver told; what is held beyond need is given back then."""
        while self.events:
            word, *rest = self.events.pop(0)
            getattr(self, "on_" + word)(*rest)
            if not self.events:
                self.give_back()  # which may cause more

    def give_back(self):
        wanted = set(self.held.values()) | {ident for ids in self.known.values() for ident in ids}
        wanted |= {self.owed[name] for name in self.owed if host(name) == self.name}
        for ident in sorted(self.holds):
            while self.holds[ident] > (ident in wanted):
                self.holds[ident] -= 1
                self.command(f"release {ident}")
        self.holds += Counter()

    # -- events

    def on_out(self, connection, message):
        link, side = self.links[int(connection)]
        link.push(side, bytes.fromhex(message))

    def on_deliver(self, target, method, args, result, *refs):
        text, result = from_hex(args), int(result)
        for ref in refs:
            self.holds[int(ref[1:])] += 1
        if from_hex(method) in (worlds.PING, translator.FORGOTTEN):
            self.unheard.update(int(ref[1:]) for ref in refs)
            return
        if result:
            self.decided.add(result)
            self.names[result] = f"r{worlds.tag_of(text)[1:]}"
        self.hear_message(self.names[int(target)], text, result)
        self.tell(refs, self.world.names_in(text))

    def tell(self, refs, names):
        for ref, name in zip(refs, names, strict=True):
            if (ref[0] == "o") != is_object(name):
                raise Fault(f"{self.name} hears of {name} as {ref}")
            self.told(int(ref[1:]), name)

    def on_resolved(self, promise, kind, *rest):
        ident, kind = int(promise), KINDS[kind]
        self.holds.pop(ident, None)
        text, refs = (None, rest) if kind == OBJECT else (from_hex(rest[0]), rest[1:])
        for ref in refs:
            self.holds[int(ref[1:])] += 1
        name = self.names.get(ident)
        by_itself = ident in self.decided and ident not in self.known.get(name, ())
        if by_itself or (name is None and ident in self.unheard):
            self.unheard.update(int(ref[1:]) for ref in refs)
            return
        if name is None:
            raise Fault(f"{self.name} hears of {ident}, which it does not hold")
        settled = self.world.settle(name)
        if settled is None:
            raise Fault(f"{self.name} hears that {name} is resolved, which it is not")
        self.tell(refs, [settled[1]] if kind == OBJECT else self.world.names_in(text))
        self.hear_resolution(ident, kind, int(refs[0][1:]) if kind == OBJECT else None, text)

    def on_gone(self, local):
        """Nobody refers to it. An object keeps its id; a promise is not to be resolved any more."""
        ident = int(local)
        if ident in self.decided:
            self.decided.discard(ident)
            name = self.names.pop(ident)
            if self.owed.get(name) == ident:
                del self.owed[name]
                self.world.happened["answers for nobody"] += 1
        elif ident in self.live:
            self.live.discard(ident)
            self.world.happened["objects gone"] += 1
        else:
            raise Fault(f"{self.name}: {ident} is gone")

    def on_dropped(self, connection, local):
        self.world.happened["drops executed"] += 1

    def on_revoked(self, local, *rest):
        raise Fault(f"{self.name}: {local} was revoked")

    def on_failed(self, connection, *rest):
        raise Fault(f"{self.name}: connection {connection} failed: {' '.join(rest)}")

    # -- what the application does

    def targets(self):
        """Its own objects, too, that a promise turned out to be: what it sends to those must not overtake."""
        turned = [name for name, ident in self.own.items() if ident in self.last and self.is_live(name)]
        return super().targets() + sorted(turned)

    def is_live(self, name):
        return self.own[name] in self.live or name.endswith(".o0")

    def decides(self, ident):
        return ident in self.decided

    def check_own(self, ident, name):
        if self.own.get(name) != ident:
            raise Fault(f"{self.name} knew its {name} as {self.own.get(name)}, not {ident}")

    def id_of(self, name):
        if is_object(name) and host(name) != self.name:
            return self.held[name]
        if is_object(name):
            if name not in self.own:
                self.own[name] = self.new_local("object", name)
            return self.own[name]
        if name in self.known:
            return self.known[name][-1]
        if self.owed[name] is None:
            ident = self.owed[name] = self.new_local("promise", name)
            self.decided.add(ident)
            self.holds[ident] = 1
        return self.owed[name]

    def new_local(self, kind, name):
        ident = int(self.command(kind)["local"][0][0])
        self.names[ident] = name
        return ident

    def ref(self, name):
        if is_object(name) and host(name) == self.name and not name.endswith(".o0"):
            self.live.add(self.id_of(name))
        return f"{'o' if is_object(name) else 'p'}{self.id_of(name)}"

    def send(self, message):
        target = self.id_of(message.target)
        self.stamp(message, target)
        refs = [self.ref(name) for name in message.refs]
        text = self.world.message_text(message)
        method = in_hex(translator.method_of(text))
        answer = self.command(" ".join(["send", str(target), method, in_hex(text), str(int(message.wants)), *refs]))
        result = int(answer["result"][0][0])
        if message.wants:
            self.told(result, message.result)
            self.holds[result] = 1
        self.take()

    def resolve(self, names):
        """Promises that it owes, together. One that nobody was told of, and that none of the others mentions, is
        nothing."""
        values = {name: self.world.promises[name].resolution for name in names}
        there = [name for name in names if self.owed[name] is not None]
        for name in there:  # grows meanwhile
            there += [ref for ref in values[name][2] if ref in values and ref not in there]
        answers = []
        for name in there:
            kind, value, refs = values[name]
            if kind == OBJECT:
                rest = ["object", self.ref(value)[1:]]
            else:
                text = in_hex(self.world.value_text(name))
                rest = ["data" if kind == DATA else "rejection", text, *(self.ref(ref) for ref in refs)]
            answers.append(" ".join([str(self.id_of_owed(name)), *rest]))
        if answers:
            self.do("resolve " + " ; ".join(answers))
        for name in names:
            ident = self.owed.pop(name, None)
            if ident is not None:
                self.decided.discard(ident)
                self.names.pop(ident, None)
                self.holds.pop(ident, None)

    def id_of_owed(self, name):
        return self.owed[name] or self.id_of(name)

    def droppable(self):
        return sorted(set(self.held) - self.roots)

    def drop(self, name, weakly):
        ident = self.held.pop(name)
        self.last.pop(ident, None)
        del self.names[ident]
        self.release(ident)

    def let_go(self, name):
        for ident in self.known.pop(name):
            self.last.pop(ident, None)
            if ident not in self.decided:
                del self.names[ident]
            self.release(ident)

    def release(self, ident):
        del self.holds[ident]
        self.do(f"release {ident}")

    def keeps(self):
        return set(self.held)

    def check_empty(self, pinned):
        left = {self.names[ident] for ident in self.live} | set(self.held) - self.roots
        if left - pinned or self.known or self.owed:
            raise Fault(f"{self.name} still knows {left} {self.known} {self.owed}")
        stats = self.command("stats")
        self.world.happened["drops ignored"] += sum(int(ignored) for *_, ignored in stats["session"])
        records, _, held, _, fences = stats["records"][0]
        if not pinned and (int(records), int(held), int(fences)) != (1 + len(self.links), 0, 0):
            raise Fault(f"{self.name} keeps {records} records, {held} held messages and {fences} fences")

    def ping(self):
        for root in sorted(self.roots):
            self.do(f"send {self.held[root]} {in_hex(worlds.PING)} {in_hex(worlds.PING_TEXT)} 0")

    # -- the connection

    def receive(self, connection, raw):
        self.do(f"recv {connection} {raw.hex()}")
        return []

    def tick(self, milliseconds):
        self.do(f"tick {milliseconds * 1000}")

    def table(self, connection):
        answer = self.command("stats")
        waiting = int(answer["session"][connection][2])
        entries = self.command(f"entries {connection}").get("entry", [])
        return {wire.ref_of(int(ref)) for ref, _, live in entries if live == "1"}, waiting
