"""An application on a comms vat, and the kernel between them, which this plays."""
import json
import os
import re

import translator
import world as worlds
from ends import End, Process
from translator import Fault, Translator
from world import DATA, OBJECT, REJECTION, host, is_object

IGNORED_ACK = re.compile(r"unrecognized .*ack")  # counted and honoured all the same
ERROR_TEXT = '#{"#error":"data is not callable","name":"TypeError"}'


class Vats(Process):
    """vat.mjs."""

    def __init__(self, node, folder):
        super().__init__([node, os.path.join(os.path.dirname(__file__), "vat.mjs"), folder])

    def ask(self, vat, ask, **rest):
        self.write(json.dumps({"vat": vat, "ask": ask, **rest}))
        return json.loads(self.read())


class VatEnd(End):
    """The kernel keeps messages for promises that the application decides, and passes them on when they are
    resolved."""

    is_vat = True

    def __init__(self, world, name, vats, side):
        super().__init__(world, name)
        self.vats = vats
        self.translator = Translator(side)
        self.own = {}     # object of this application that the vat knows: its id
        self.weak = {}    # object: id of an import that the kernel dropped, but would recognise
        self.queues = {}  # id of a promise that the kernel decides: [(text, names of refs, id of the result)]
        self.ids = {"o": 100, "p": 100}
        self.said, self.is_listening = [], False
        vats.ask(name, "start")
        self.ask("egress", index=translator.VAT_ROOT, object=self.id_of(f"{name}.o0"))

    def join(self, link, side):
        self.connect(link, side, self.ask("ingress", index=translator.OUR_BASE))

    def new_id(self, kind):
        self.ids[kind] += 1
        return f"{kind}-{self.ids[kind]}"

    def ask(self, ask, **rest):
        answer = self.vats.ask(self.name, ask, **rest)
        if "failed" in answer:
            raise Fault(f"vat {self.name} fails: {ask} {rest}: {answer['said']}")
        if answer["said"] and not IGNORED_ACK.search(answer["said"]):
            raise Fault(f"vat {self.name} says: {ask} {rest}: {answer['said']}")
        for line in answer["lines"]:
            self.world.note(f"    {self.name} line {line}")
            self.said.append(line)
        if not self.is_listening:
            self.pass_lines()
        for event in answer["events"]:
            getattr(self, "on_" + event[0])(*event[1:])
        return answer.get("value")

    def pass_lines(self):
        while self.said:
            link, side = self.links[0]
            for raw in self.translator.from_vat(self.said.pop(0)):
                link.push(side, raw)

    # -- what the vat says to the kernel

    def on_send(self, target, body, slots, result):
        if worlds.tag_of(body) == worlds.PING:
            return
        names = self.world.names_in(body)
        if result:
            self.names[result] = f"r{worlds.tag_of(body)[1:]}"
            self.queues[result] = []
        for ident, name in zip(slots, names, strict=True):
            self.told_strongly(ident, name)
        if target in self.queues:
            self.queues[target].append((body, names, result))
            self.world.happened["queued by the kernel"] += 1
        else:
            self.hear_message(self.names[target], body, result)

    def told_strongly(self, ident, name):
        if name in self.weak:
            if self.weak.pop(name) != ident:
                raise Fault(f"{self.name} would have recognised {name}")
            self.world.happened["recognised"] += 1
        self.told(ident, name)

    def decides(self, ident):
        return ident in self.queues

    def check_own(self, ident, name):
        if self.own.get(name) != ident:
            raise Fault(f"{self.name} knew its {name} as {self.own.get(name)}, not {ident}")

    def on_resolve(self, resolutions):
        waiting = list(resolutions)
        while waiting:  # what is resolved may first be mentioned by another one of the same batch
            each = next((each for each in waiting if each[0] in self.names), None)
            if each is None:
                raise Fault(f"{self.name} hears of {waiting}, which it does not know")
            waiting.remove(each)
            self.tell_refs(each)
        for promise, rejected, body, slots in resolutions:
            one = not rejected and translator.ONE_OBJECT.fullmatch(body)
            kind = REJECTION if rejected else OBJECT if one else DATA
            self.hear_resolution(promise, kind, slots[0] if one else None, body)

    def tell_refs(self, resolution):
        promise, _, body, slots = resolution
        if slots and translator.ONE_OBJECT.fullmatch(body):
            names = [self.world.settle(self.names[promise])[1]]
        else:
            names = self.world.names_in(body)
        for ident, name in zip(slots, names, strict=True):
            self.told_strongly(ident, name)

    def on_subscribe(self, promise):
        if promise not in self.names:
            raise Fault(f"{self.name}: the vat asks for {promise}")

    def on_dropImports(self, refs):
        for ref in refs:
            if ref not in self.names:
                raise Fault(f"{self.name}: the vat drops {ref}")

    def on_retireImports(self, refs):
        for ref in refs:
            del self.own[self.names.pop(ref)]

    # -- what the application does

    def id_of(self, name):
        """As the kernel mentions it to the vat."""
        if is_object(name) and host(name) != self.name:
            return self.held[name]
        if is_object(name):
            if name not in self.own:
                self.own[name] = self.new_id("o")
                self.names[self.own[name]] = name
            return self.own[name]
        if name in self.known:
            return self.known[name][-1]
        if self.owed[name] is None:
            ident = self.owed[name] = self.new_id("p")
            self.names[ident] = name
            self.queues[ident] = []
        return self.owed[name]

    def send(self, message):
        target = self.id_of(message.target)
        self.stamp(message, target)
        result = None
        if message.wants:
            result = self.new_id("p")
            self.told(result, message.result)
        slots = [self.id_of(name) for name in message.refs]
        self.ask("send", target=target, body=self.world.message_text(message), slots=slots, result=result)

    def resolve(self, names):
        """Promises that it owes; each but the first is mentioned by one before it."""
        if self.owed[names[0]] is None:
            del self.owed[names[0]]
            return
        flushes = []
        for name in names:
            kind, value, refs = self.world.promises[name].resolution
            ident = self.owed[names[0]] if name == names[0] else self.id_of(name)
            flushes.append((ident, kind, self.world.value_text(name), [value] if kind == OBJECT else refs))
        together = len(flushes)
        for each in flushes:  # grows meanwhile
            for queued in self.queues.pop(each[0]):
                self.pass_on(queued, each, flushes)
        self.notify(flushes[:together])
        for each in flushes[together:]:
            self.notify([each])

    def notify(self, resolutions):
        told = [[ident, kind == REJECTION, body, [self.id_of(name) for name in names]]
                for ident, kind, body, names in resolutions]
        for ident, *_ in resolutions:
            self.owed.pop(self.names.pop(ident), None)
        self.ask("notify", resolutions=told)

    def pass_on(self, queued, resolution, flushes):
        """What waited for a promise goes where that was resolved to."""
        text, mentioned, result = queued
        _, kind, body, names = resolution
        if kind == OBJECT and host(names[0]) == self.name:
            self.hear_message(names[0], text, result)
        elif kind == OBJECT:
            slots = [self.id_of(name) for name in mentioned]
            self.ask("send", target=self.id_of(names[0]), body=text, slots=slots, result=result)
            self.world.happened["passed on by the kernel"] += 1
        elif result:
            flushes.append((result, REJECTION, *((body, names) if kind == REJECTION else (ERROR_TEXT, []))))

    def queued_names(self):
        return {name for queue in self.queues.values() for _, names, _ in queue for name in names}

    def droppable(self):
        return sorted(set(self.held) - self.queued_names() - self.roots)

    def drop(self, name, weakly):
        ident = self.held.pop(name)
        self.ask("dropExports", refs=[ident])
        self.last.pop(ident, None)
        if weakly:
            self.weak[name] = ident
        else:
            self.retire_id(ident)

    def retire(self, name):
        self.retire_id(self.weak.pop(name))

    def retire_id(self, ident):
        del self.names[ident]
        self.ask("retireExports", refs=[ident])

    def keeps(self):
        """Objects that the connection must go on knowing."""
        return set(self.held) | set(self.weak)

    def ping(self):
        root = self.held[next(iter(self.roots))]
        self.ask("send", target=root, body=worlds.PING_TEXT, slots=[], result=None)

    # -- the connection

    def receive(self, connection, raw):
        self.is_listening = True  # what it says to the first lines of a message waits for the last one
        for line in self.translator.to_vat(raw):
            self.world.note(f"    to {self.name} {line}")
            self.ask("receive", line=line)
        self.is_listening = False
        self.pass_lines()
        self.world.happened["late"] += len(self.translator.late)
        return self.translator.late

    def tick(self, milliseconds):
        """A vat has no clock."""

    def table(self, connection):
        """Refs in its c-list, and what it has not retired yet. Some of those may be unknown to the other end: dropped
        promises."""
        tables = self.ask("tables")
        if set(tables["kernel"]) != set(self.names):
            raise Fault(f"{self.name}: the vat knows {tables['kernel']}, the kernel {sorted(self.names)}")
        refs = set()
        for name in tables["remote"]:
            said = translator.flip(name)
            if said not in self.translator.dropped:
                if said not in self.translator.ours:
                    raise Fault(f"{self.name}: the vat knows {said}, the translator does not")
                refs.add(self.translator.ours[said])
        return refs, tables["waiting"]
