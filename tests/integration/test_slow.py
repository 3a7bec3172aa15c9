"""A subscriber that takes next to nothing while very many messages come: the relay's memory stays flat, the others get
theirs at once, and the slow one misses nothing when it goes on.

TF_LONG=1: a million messages instead of 60 000. Figures are printed; only what does not depend on speed is asserted."""
import json
import os
import threading
import time

import lib

COUNT = 1000000 if lib.LONG else 60000
SIZE = 200
FLAT = 128 << 20  # bytes that the relay may grow by: its tail, its cache, what waits for the index, whatever the count


def rss(program):
    with open(f"/proc/{program.process.pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class SlowReader:
    """Reads one line a second from a sub; then, told so, all the rest."""

    def __init__(self, world, uri):
        read_end, write_end = os.pipe()
        self.file = os.fdopen(read_end, "rb")
        self.program = world.sub(uri, "c", "--from", "first", "--json", "-n", str(COUNT), stdout=write_end)
        os.close(write_end)
        self.hurry = threading.Event()
        self.seqs = []
        self.thread = threading.Thread(target=self.read_all, daemon=True)
        self.thread.start()

    def read_all(self):
        for line in self.file:
            self.seqs.append(json.loads(line)["seq"])
            self.hurry.wait(1)  # it is slow: that is what is tested, nothing waits for it

    def finish(self):
        self.hurry.set()
        self.program.ends(lib.OK)
        self.thread.join()
        return self.seqs


def release_twofold():
    """Memory of other builds is not that of the product."""
    build = os.environ.get("TF_RELEASE_BUILD", "")
    program = os.path.join(build, "node", "twofold")
    if not build or not os.path.exists(program):
        raise lib.Skip("TF_RELEASE_BUILD names no release build; memory of other builds is not that of the product")
    return program


def test_slow_subscriber_costs_the_others_nothing(world):
    lib.TWOFOLD = release_twofold()
    relay = world.relay("--max-in-flight", "1024")
    slow = SlowReader(world, relay.uri)
    fast = world.sub(relay.uri, "c", "--from", "first", "--verify", "-n", str(COUNT))
    world.pub(relay.uri, "c", "--count", "1000", "--size", str(SIZE)).succeeds()
    before = rss(relay)
    began = time.monotonic()
    world.pub(relay.uri, "c", "--count", str(COUNT - 1000), "--size", str(SIZE)).succeeds()
    fast.ends(lib.OK)
    spent = time.monotonic() - began
    grown = rss(relay) - before
    print(f"    {COUNT} messages in {spent:.1f} s while one subscriber had taken {len(slow.seqs)}; "
          f"the relay grew by {grown / (1 << 20):.1f} MiB")
    assert len(slow.seqs) < COUNT / 2, "it was not slow: the test is none"
    assert grown < FLAT, f"the relay grew by {grown} bytes"
    assert slow.finish() == list(range(1, COUNT + 1)), "the slow one missed something"


test_slow_subscriber_costs_the_others_nothing.hang = 900


lib.main(globals())
