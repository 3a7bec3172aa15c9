"""An end of a random world: an application on a comms vat (vat_end.py) or on our node (node_end.py). It knows objects
and promises by ids of its own, which are bound to the names of world.py when they are heard, and must stay."""
import subprocess

from translator import Fault
from world import OBJECT, host, is_object


class Process:
    """A program that answers lines on stdin on its stdout."""

    def __init__(self, command, **options):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)

    def write(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise Fault(f"{self.process.args[0]} ended with status {self.process.wait()}")
        return line.rstrip("\n")

    def end(self):
        """Its exit status."""
        self.process.stdin.close()
        self.process.stdout.read()
        return self.process.wait()


class End:
    """What both kinds share: names and ids. held: imports of the application. known: unresolved promises that it was
    told, or whose answer it waits for; a promise may have several ids. owed: promises that it is to resolve, each with
    the id for that."""

    def __init__(self, world, name):
        self.world, self.name = world, name
        self.links = []     # (link, side) by connection
        self.roots = set()  # of the neighbours: held for ever
        self.held = {}      # object: its id
        self.known = {}     # promise: its ids
        self.owed = {}      # promise: its id; None: nobody was told of it
        self.names = {}     # id: name
        self.last = {}      # id: numbers of the last messages to it
        world.ends[name] = self

    def connect(self, link, side, root):
        """root: the id of the root object of the neighbour."""
        self.links.append((link, side))
        name = f"{link.ends[1 - side][0].name}.o0"
        self.roots.add(name)
        self.told(root, name)

    def told(self, ident, name):
        """Binds an id that was heard to the name that it should have."""
        if self.names.setdefault(ident, name) != name:
            raise Fault(f"{self.name} knew {ident} as {self.names[ident]}, now it is {name}")
        if is_object(name) and host(name) != self.name:
            if self.held.setdefault(name, ident) != ident:
                raise Fault(f"{name} is known to {self.name} as {self.held[name]} and as {ident}")
        elif is_object(name):
            self.check_own(ident, name)
        elif not self.decides(ident) and ident not in self.known.setdefault(name, []):
            self.known[name].append(ident)

    def decides(self, ident):
        return ident in self.owed.values()

    def forget_promise(self, ident):
        """It was resolved, or let go."""
        name = self.names.pop(ident)
        self.last.pop(ident, None)
        ids = self.known[name]
        ids.remove(ident)
        if not ids:
            del self.known[name]
        return name

    def stamp(self, message, ident):
        """Notes the order in which this application sends to one reference."""
        message.before = set(self.last.get(ident, ()))
        self.last[ident] = {message.number}

    def became(self, ident, target):
        """Promise `ident` turned out to be the object `target`: what was sent to it was sent to that."""
        self.last[target] = self.last.get(target, set()) | self.last.get(ident, set())

    def targets(self):
        """What it can send to."""
        return sorted(self.held) + sorted(self.known)

    def hear_message(self, target, text, result):
        message = self.world.arrives(self, target, text)
        if result:
            self.owed[message.result] = result
        return message

    def check_empty(self, pinned):
        """Nothing is left but the roots, and what vats have pinned."""
        left = set(self.names.values()) - self.roots - {f"{self.name}.o0"} - pinned
        if left or self.known or self.owed:
            raise Fault(f"{self.name} still knows {left} {self.known} {self.owed}")

    def hear_resolution(self, ident, kind, value, text):
        name = self.names[ident]
        self.world.check_resolution(self, name, kind, value and self.names.get(value), text)
        if kind == OBJECT:
            self.became(ident, value)
        self.forget_promise(ident)
