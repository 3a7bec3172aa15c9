"""What a disk can do to a relay: it fills up and empties again, it loses or alters what was written. The relay refuses
what it cannot keep, goes on by itself, names what is lost and serves the rest; what was acked before is never missing."""
import glob
import json
import os
import signal
import subprocess

import lib

SMALL = "[store]\nsegment_size = 256KiB\nlog_size = 1MiB\n"


class SmallDisk:
    """A file system of its own, of few MiB."""

    def __init__(self, world, size):
        self.path = world.path("disk")
        os.mkdir(self.path)
        mount = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", self.path],
                               capture_output=True, check=False)
        if mount.returncode != 0:
            raise lib.Skip("no file system can be mounted here: " + mount.stderr.decode().strip())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["umount", "-l", self.path], check=False)

    def fill(self, leave=0):
        """All that is free but `leave` bytes goes to a file."""
        state = os.statvfs(self.path)
        size = state.f_bavail * state.f_frsize - leave
        with open(os.path.join(self.path, "filler"), "wb") as file:
            file.write(b"x" * max(0, size))

    def empty(self):
        os.unlink(os.path.join(self.path, "filler"))


def small_relay(world, **more):
    return world.relay("-c", world.write("small.conf", SMALL), data="disk/relay", **more)


def acks_of(out):
    return [line for line in map(json.loads, out.splitlines()) if "seq" in line]


def fill_up(world, relay, size):
    """Sends until the relay has no more room; the acks."""
    pub = world.pub(relay.uri, "c", "--json", "--count", "1000000", "--size", str(size), "--retry-limit", "2s")
    out, err = pub.ends(lib.NEGATIVE)
    assert b'"store_full"' in out, (out[-500:], err[-500:])
    acks = acks_of(out)
    assert len(acks) > 100, f"only {len(acks)} messages found room"
    return acks


def stored(world, relay, head, first="first"):
    sub = world.sub(relay.uri, "c", "--from", first, "--json", "-n", str(head))
    return [json.loads(line) for line in sub.succeeds().splitlines()]


def same_ids(messages, acks):
    by_seq = {m["seq"]: m for m in messages}
    for ack in acks:
        assert by_seq[ack["seq"]]["id"] == ack["id"], f"{ack} is not stored so"


def test_full_disk_is_refused_read_and_recovered_by_trimming(world):
    with SmallDisk(world, "8m"):
        relay = small_relay(world)
        acks = fill_up(world, relay, 1000)
        head = max(ack["seq"] for ack in acks)
        same_ids(stored(world, relay, head), acks)
        assert relay.events("store_not_writable"), "it said nothing"
        # It starts again while it is full, and has everything.
        relay.signal(signal.SIGKILL)
        relay.wait()
        relay = small_relay(world, listen=relay.address)
        same_ids(stored(world, relay, head), acks)
        # Room is made, and it goes on by itself.
        world.twofold("channel", "trim", "-i", world.key("pub"), relay.uri, "c", "--before", str(head - 100)).ends(lib.OK)
        more = acks_of(world.pub(relay.uri, "c", "--json", "--count", "200", "--size", "1000").succeeds())
        assert [ack["seq"] for ack in more] == list(range(more[0]["seq"], more[0]["seq"] + 200)), "a hole"
        assert more[0]["seq"] == head + 1, (more[0], head)
        same_ids(stored(world, relay, 100 + 201, str(head - 100)), more)


def test_disk_filled_by_others_is_recovered_when_they_go(world):
    with SmallDisk(world, "8m") as disk:
        relay = small_relay(world)
        world.pub(relay.uri, "c", "before", "--json").succeeds()
        disk.fill()
        acks = fill_up(world, relay, 1000)
        pub = world.pub(relay.uri, "c", "--json", stdin=b"while it is full\n")
        disk.empty()
        late = acks_of(pub.succeeds())  # it was refused, retried, and got through
        head = late[0]["seq"]
        assert head == max(ack["seq"] for ack in acks) + 1, (late, acks[-1])
        same_ids(stored(world, relay, head), acks + late)


# -- damage --------------------------------------------------------------------------------------------------------------


def corrupt(path, where, count=64):
    with open(path, "r+b") as file:
        file.seek(where)
        file.write(b"\xa5" * count)


def filled_and_stopped(world, end, count=4000):
    relay = world.relay()
    world.pub(relay.uri, "c", "--count", str(count), "--size", "300").succeeds()
    relay.signal(end)
    relay.wait()
    return relay


def received(world, relay, last):
    """What a subscriber gets up to that seq, and what it is told."""
    sub = world.sub(relay.uri, "c", "--from", "first", "--json")
    sub.out.wait(lambda: f'"seq":{last},'.encode() in sub.out.data, f"seq {last}")
    sub.signal(signal.SIGINT)
    sub.wait()
    return [json.loads(line)["seq"] for line in sub.out.text().splitlines()], sub.err.text()


def check_gap(world, relay, count):
    """Some are missing, the rest is there in order, and the missing ones are announced."""
    world.pub(relay.uri, "c", "the last one").succeeds()
    seqs, err = received(world, relay, count + 1)
    missing = sorted(set(range(1, count + 2)) - set(seqs))
    assert seqs == sorted(set(seqs)), "not in order, or not once"
    assert missing, "nothing was damaged: the test is none"
    assert len(missing) < count, "everything is gone"
    assert "damaged" in err, f"the loss was not announced: {err!r}"
    shown = world.twofold("channel", "gaps", "-i", world.key("pub"), "--json", relay.uri, "c").succeeds()
    named = set()
    for line in map(json.loads, shown.splitlines()):
        named.update(range(line["first"], line["last"] + 1))
    assert set(missing) <= named, f"{missing[:3]}...{missing[-3:]} against {shown}"


def test_damaged_index_serves_the_rest_and_names_what_is_lost(world):
    count = 4000
    relay = filled_and_stopped(world, signal.SIGTERM, count)
    index = world.path("relay/store/index.db")
    data = open(index, "rb").read()
    where = data.find(b"2000" + b"." * 200)  # the body of a message in the middle
    assert where > 0, "the message is not in the index"
    corrupt(index, where)
    relay = world.relay(listen=relay.address)
    check_gap(world, relay, count)


def test_damaged_log_serves_the_rest_and_names_what_is_lost(world):
    """Killed before the index had it all: what the log alone held is damaged in the middle."""
    count = 3000
    relay = world.relay()
    world.pub(relay.uri, "c", "--count", "10").succeeds()
    world.pub(relay.uri, "c", "--count", str(count - 10), "--size", "300").succeeds()
    relay.signal(signal.SIGKILL)
    relay.wait()
    found = []
    for path in sorted(glob.glob(world.path("relay/store/log/*"))):
        with open(path, "rb") as file:
            data = file.read()
        where = data.find(b"2900" + b"." * 200)
        if where > 0:
            found.append((path, where))
    if not found:
        raise lib.Skip("the index had everything already")
    corrupt(*found[0])
    relay = world.relay(listen=relay.address)
    if not relay.events("store_damaged"):
        raise lib.Skip("the index had that part already")
    check_gap(world, relay, count)


def test_version_from_the_future_is_refused(world):
    relay = filled_and_stopped(world, signal.SIGTERM, 10)
    index = world.path("relay/store/index.db")
    subprocess.run(["sqlite3", index, "PRAGMA user_version = 9999"], check=True, capture_output=True)
    _, err = world.twofold("relay", "--listen", relay.address, "--data", world.path("relay")).ends(lib.NEGATIVE)
    assert "9999" in err, err


def test_index_that_is_no_database_ends_with_7(world):
    relay = filled_and_stopped(world, signal.SIGTERM, 10)
    with open(world.path("relay/store/index.db"), "r+b") as file:
        file.write(b"this is no database at all" * 200)
    _, err = world.twofold("relay", "--listen", relay.address, "--data", world.path("relay")).ends(7)
    assert "store repair" in err, err


lib.main(globals())
