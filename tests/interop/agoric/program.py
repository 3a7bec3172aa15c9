"""A random program: what the applications do and in which order messages arrive comes from one seed. At rest everything
is compared: every end of every connection knows what it should and nothing else, and so does the other end."""
import random

from node_end import NodeEnd
from translator import Fault
from vat_end import VatEnd
from world import DATA, OBJECT, REJECTION, Link, World, host, is_object

REFS_MOST = 3
OBJECTS_MOST = 4  # that an application makes before it mentions old ones only
TICK = 25         # milliseconds, more than an ack takes


def build(shape, vats, nodes):
    """A row of ends: "v" a vat, "n" our node. The left one of two is the dialler."""
    world = World()
    for place, kind in enumerate(shape):
        name = "ABCDEFGH"[place]
        if kind == "v":
            VatEnd(world, name, vats, 0 if place == 0 else 1)
        else:
            NodeEnd(world, name, nodes[place])
    ends = list(world.ends.values())
    for left, right in zip(ends, ends[1:]):
        link = Link(world, (left, len(left.links)), (right, len(right.links)))
        left.join(link, 0)
        right.join(link, 1)
        world.links.append(link)
    return world


class Program:
    def __init__(self, world, seed):
        self.world = world
        self.random = random.Random(seed)
        self.apps = list(world.ends.values())
        self.drop_odds = self.random.choice((1, 3, 6))
        self.line_odds = self.random.choice((4, 8, 16))
        self.foreign_odds = self.random.choice((0.2, 0.5, 0.8))  # see Promise
        self.favour_odds = self.random.choice((0.1, 0.4, 0.8))
        self.speeds = {(link, side): self.random.choice((1, 4, 16)) for link in world.links for side in (0, 1)}
        self.favourites = {}  # by end: whom it sent to last; order matters only between messages to the same one
        self.rest_odds = self.random.choice((1 / 30, 1 / 60, 1 / 120))

    def run(self, steps):
        for _ in range(steps):
            self.step()
            if self.random.random() < self.rest_odds:
                self.rest()
        self.finish()

    def step(self):
        busy = [(link, side) for link in self.world.links for side in (0, 1) if link.queues[side]]
        choices = [(6, self.send), (4, self.resolve), (self.drop_odds, self.drop), (1, self.let_go), (1, self.tick)]
        if busy:
            choices.append((self.line_odds, None))
        what = self.random.choices([each for _, each in choices], [odds for odds, _ in choices])[0]
        if what is None:
            link, side = self.random.choices(busy, [self.speeds[link, side] for link, side in busy])[0]
            link.deliver(side)
        else:
            what(self.random.choice(self.apps))

    # -- what applications do

    def send(self, end):
        targets = end.targets()
        target = self.favourites.get(end.name)
        if target not in targets or self.random.random() > self.favour_odds:
            target = self.random.choice(targets)
        self.favourites[end.name] = target
        for _ in range(1 if is_object(target) else self.random.choice((1, 2, 4))):
            if not is_object(target) and target not in end.known:
                break  # it was resolved meanwhile, as when a message comes back at once
            self.send_to(end, target)

    def send_to(self, end, target):
        careful = not is_object(target) and self.world.promises[target].is_foreign()
        refs = self.some_refs(end, objects_only=careful)
        wants = not careful and self.random.random() < 0.6
        decider = self.world.ends[host(target)] if is_object(target) else None
        free = decider is not None and not decider.is_vat
        message = self.world.new_message(end, target, refs, wants, self.is_foreign(), free)
        if wants and end.is_vat and self.random.random() < 0.1:  # ours cannot name an answer before they ask
            message.refs += (message.result,)
        self.world.note(f"{end.name} sends m{message.number} to {target}: {message.refs}{' ?' if wants else ''}")
        end.send(message)

    def is_foreign(self):
        return self.random.random() < self.foreign_odds

    def some_refs(self, end, objects_only):
        count = self.random.randrange(REFS_MOST + 1)
        refs = []
        for _ in range(count):
            ref = self.some_ref(end, objects_only)
            if ref not in refs:
                refs.append(ref)
        return refs

    def some_ref(self, end, objects_only):
        promises = sorted(end.known) + sorted(end.owed)
        kind = self.random.randrange(6)
        if not objects_only and kind == 0:
            name = self.world.new_promise(end, self.is_foreign(), not end.is_vat)
            end.owed[name] = None
            return name
        if not objects_only and kind < 3 and promises:
            return self.random.choice(promises)
        if kind < 5 and end.held:
            return self.random.choice(sorted(end.held))
        return self.own_object(end)

    def own_object(self, end):
        made = self.world.counters[f"{end.name}.o"]
        if made < OBJECTS_MOST or self.random.randrange(4) == 0:
            return self.world.new_object(end)
        return f"{end.name}.o{self.random.randint(1, made)}"

    def resolve(self, end):
        if not end.owed:
            return
        names = [self.some_owed(end)]
        if not end.is_vat:  # several at once that have nothing to do with each other
            others = [name for name in sorted(end.owed) if name != names[0]]
            names += self.random.sample(others, min(len(others), self.random.randrange(3)))
        batch = []
        for name in names:
            batch.append(name)
            kind = self.random.choice((OBJECT, OBJECT, OBJECT, DATA, DATA, REJECTION))
            batch += self.resolution(end, name, kind)
        for name in batch:
            self.world.note(f"{end.name} resolves {name}: {self.world.promises[name].resolution}")
        end.resolve(batch)

    def some_owed(self, end):
        """Often one that messages are on their way to: they cross its resolution."""
        names = sorted(end.owed)
        aimed = [message.target for message in self.world.messages if not message.arrived and message.target in end.owed]
        return self.random.choice(aimed if aimed and self.random.random() < self.favour_odds else names)

    def resolution(self, end, name, kind):
        """Gives a promise its resolution. Comes back with new promises that it mentions and that are resolved with
        it."""
        promise = self.world.promises[name]
        if kind == OBJECT:
            local = end.is_vat and not promise.is_foreign()
            choices = [] if local else sorted(end.held)
            value = self.random.choice(choices) if choices and self.random.randrange(6) else self.own_object(end)
            self.world.happened["resolved to what is elsewhere"] += host(value) != end.name
            promise.resolution = (OBJECT, value, (value,))
            return []
        refs = self.some_refs(end, objects_only=True)
        new = []
        if kind == DATA:
            promises = sorted(end.known) + sorted(end.owed)
            older = [each for each in promises if self.world.promises[each].index < promise.index]
            refs += self.random.sample(older, min(len(older), self.random.randrange(2)))
            if end.owed[name] is not None and self.random.randrange(4) == 0:
                new = [self.resolved_promise(end)]
        promise.resolution = (kind, None, tuple(dict.fromkeys(refs + new)))
        return new

    def resolved_promise(self, end):
        name = self.world.new_promise(end, False, not end.is_vat)
        end.owed[name] = None
        self.world.promises[name].resolution = (DATA, None, tuple(self.some_refs(end, objects_only=True)))
        return name

    def drop(self, end):
        names = end.droppable()
        if end.is_vat and end.weak and self.random.randrange(3) == 0:
            name = self.random.choice(sorted(end.weak))
            self.world.note(f"{end.name} retires {name}")
            end.retire(name)
        elif names:
            name = self.random.choice(names)
            weakly = end.is_vat and self.random.randrange(4) == 0
            self.world.note(f"{end.name} drops {name}{' weakly' if weakly else ''}")
            end.drop(name, weakly)

    def let_go(self, end):
        """An application on our node does not wait for a promise any more; the vat's kernel knows no such thing."""
        if not end.is_vat and end.known:
            name = self.random.choice(sorted(end.known))
            self.world.note(f"{end.name} lets go of {name}")
            end.let_go(name)

    @staticmethod
    def tick(end):
        end.tick(TICK)

    # -- at rest

    def settle_lines(self):
        """Everything arrives, and time passes, until nobody says anything."""
        for _ in range(10000):
            moved = False
            for link in self.world.links:
                for side in (0, 1):
                    while link.queues[side]:
                        link.deliver(side)
                        moved = True
            if not moved:
                for end in self.apps:
                    end.tick(TICK)
                if not any(queue for link in self.world.links for queue in link.queues):
                    return
        raise Fault("the nodes do not fall silent")

    def rest(self):
        self.world.note("rest")
        self.settle_lines()
        for _ in range(2):  # a vat acks only with what it sends: for what was said, then for the drops that this causes
            for end in self.apps:
                end.ping()
            self.settle_lines()
        self.world.check_arrivals()
        pending = self.world.waiting_objects()
        for number, link in enumerate(self.world.links):
            self.check_link(number, link, pending)
        self.world.happened["rests"] += 1

    def check_link(self, number, link, pending):
        tables = []
        for end, connection in link.ends:
            refs, waiting = end.table(connection)
            if waiting:
                raise Fault(f"{end.name} has {waiting} retirements left")
            tables.append(refs)
        between = " and ".join(end.name for end, _ in link.ends)
        if tables[0] != tables[1]:
            raise Fault(f"between {between} only one end knows {self.named(link, tables[0] ^ tables[1])}")
        objects = {link.names[ref] for ref in tables[0] if not ref.is_promise}
        needed, spare = self.needed(number, link)
        if not needed <= objects or not objects <= needed | spare | pending:
            raise Fault(f"between {between} are known {sorted(objects)}; needed: {sorted(needed)}, "
                        f"may stay: {sorted(spare | pending)}")
        open_promises = {link.names[ref] for ref in tables[0] if ref.is_promise}
        for name in open_promises:
            if self.world.settle(name):
                raise Fault(f"between {between} {name} is known, but it is resolved")
        self.world.happened["entries compared"] += len(tables[0])
        self.world.happened["pinned (B3)"] += len(objects - needed - pending)

    @staticmethod
    def named(link, refs):
        return sorted((str(link.names.get(ref)), tuple(ref)) for ref in refs)

    def needed(self, number, link):
        """Objects of one side of a connection that the other side's applications hold, and those that vats there may
        have pinned. Connections are in a row, as their ends are."""
        needed, spare = set(), set()
        places = {end.name: place for place, end in enumerate(self.apps)}
        for end in self.apps:
            far = places[end.name] <= number
            across = {name for name in end.keeps() if (places[host(name)] <= number) != far}
            needed |= across
        for other in self.world.links:
            for side, names in enumerate(other.pinned):
                far = places[other.ends[side][0].name] <= number
                spare |= {name for name in names if (places[host(name)] <= number) != far}
        return needed, spare

    def finish(self):
        """Everything is resolved and let go: nothing stays but the roots."""
        self.rest()
        while any(end.owed for end in self.apps):
            for end in self.apps:
                while end.owed:
                    name = min(end.owed)
                    self.world.promises[name].resolution = (DATA, None, ())
                    end.resolve([name])
            self.rest()
        for end in self.apps:
            if end.known:
                raise Fault(f"{end.name} waits for {sorted(end.known)}, for ever")
        for end in self.apps:
            for name in end.droppable():
                end.drop(name, False)
            for name in sorted(end.weak) if end.is_vat else []:
                end.retire(name)
        self.rest()
        for end in self.apps:
            end.check_empty({name for link in self.world.links for names in link.pinned for name in names})
