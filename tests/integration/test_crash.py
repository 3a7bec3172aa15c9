"""P1 and P2 over crashes: clients send to several channels over several connections as fast as they can, while the relay,
or a client, is killed again and again. Then every acked send is stored once, under the acked id and seq; seqs are dense;
nothing is there twice; every subscriber saw each message once, in order.

TF_LONG=1: 200 kills of the relay instead of 20. TF_SEED=N: other moments."""
import json
import os
import random
import signal
import threading

import lib

CHANNELS = ("alpha", "beta", "gamma")
SEED = int(os.environ.get("TF_SEED", "1"))
KILLS = 200 if lib.LONG else 20


class Publisher:
    """pub with lines without end, until it is told to stop. Its acks are read as they come."""

    def __init__(self, world, uri, name, channel, *options):
        self.name = name
        self.channel = channel
        self.stop = threading.Event()
        self.program = world.pub(uri, channel, "--json", *options, stdin=lib.subprocess.PIPE)
        self.feeder = threading.Thread(target=self.feed, daemon=True)
        self.feeder.start()

    def feed(self):
        number = 0
        try:
            while not self.stop.is_set():
                self.program.process.stdin.write(b"".join(b"%s %d\n" % (self.name.encode(), number + i) for i in range(50)))
                number += 50
            self.program.process.stdin.close()
        except (BrokenPipeError, ValueError):
            pass  # it was killed

    def acked(self):
        return self.program.out.lines

    def acks(self):
        text = self.program.out.text()
        return [json.loads(line) for line in text.splitlines() if line.endswith("}")]


def wait_acks(publishers, count):
    """Until so many sends were acked in all."""
    for publisher in publishers:
        publisher.program.out.wait_lines(publisher.acked() + count // len(publishers))


def stored(world, uri, channel, head):
    """The channel as a fresh subscriber gets it."""
    sub = world.sub(uri, channel, "--from", "first", "--json", "--verify", "-n", str(head))
    return [json.loads(line) for line in sub.succeeds().splitlines()]


def head_of(world, uri, channel):
    """Its newest seq: the one before the next one."""
    ack = json.loads(world.pub(uri, channel, "the end", "--json").succeeds())
    return ack["seq"]


def check_channel(messages, publishers):
    assert [m["seq"] for m in messages] == list(range(1, len(messages) + 1)), "the seqs are not dense"
    keys = [(m["sender"], m["client_id"]) for m in messages]
    assert len(set(keys)) == len(keys), "a send is stored twice"
    by_id = {m["id"]: m for m in messages}
    assert len(by_id) == len(messages), "an id is there twice"
    for publisher in publishers:
        for ack in publisher.acks():
            message = by_id.get(ack["id"])
            assert message is not None, f"{ack} was acked and is not stored"
            assert (message["seq"], message["client_id"], message["timestamp"]) == \
                   (ack["seq"], ack["client_id"], ack["timestamp"]), f"{ack} is stored as {message}"
        bodies = [m["body"] for m in messages if m["body"].startswith(publisher.name + " ")]
        assert bodies == [f"{publisher.name} {i}" for i in range(len(bodies))], f"{publisher.name}: not its lines in order"


def check_all(world, relay, publishers, subscribers):
    for channel in CHANNELS:
        head = head_of(world, relay.uri, channel)
        messages = stored(world, relay.uri, channel, head)
        check_channel(messages, [p for p in publishers if p.channel == channel])
        sub = subscribers[channel]
        sub.out.wait_lines(head)
        seen = [json.loads(line) for line in sub.out.text().splitlines()[:head]]
        assert seen == messages, f"the subscriber of {channel} saw something else than is stored"


def test_relay_killed_again_and_again(world):
    chance = random.Random(SEED)
    print(f"    seed {SEED}, {KILLS} kills")
    relay = world.relay()
    subscribers = {c: world.sub(relay.uri, c, "--from", "first", "--json", "--verify") for c in CHANNELS}
    publishers = [Publisher(world, relay.uri, f"p{i}", CHANNELS[i % len(CHANNELS)]) for i in range(4)]
    for kill in range(KILLS):
        wait_acks(publishers, chance.randrange(4, 400))
        relay.signal(signal.SIGKILL)
        relay.wait()
        relay = world.relay(listen=relay.address)
    for publisher in publishers:
        publisher.stop.set()
    for publisher in publishers:
        publisher.program.succeeds()
        publisher.feeder.join()
    check_all(world, relay, publishers, subscribers)
    for sub in subscribers.values():
        assert sub.is_running(), f"a subscriber ended: {sub.err.tail()}"


test_relay_killed_again_and_again.hang = 60 + 36 * KILLS  # a redial may wait for 30 s


def test_client_killed_again_and_again(world):
    """What was acked before is stored once, whatever was on its way."""
    chance = random.Random(SEED + 1)
    relay = world.relay()
    subscribers = {c: world.sub(relay.uri, c, "--from", "first", "--json", "--verify") for c in CHANNELS}
    publishers = []
    for kill in range(KILLS // 2):
        publisher = Publisher(world, relay.uri, f"k{kill}", CHANNELS[kill % len(CHANNELS)])
        wait_acks([publisher], chance.randrange(1, 200))
        publisher.stop.set()
        publisher.program.signal(signal.SIGKILL)
        publisher.program.wait()
        publisher.feeder.join()
        publishers.append(publisher)
    check_all(world, relay, publishers, subscribers)


def test_resend_after_restart_is_a_duplicate(world):
    """One row, the original answer: after a kill, after a clean end, over another route and another connection."""
    relay = world.relay()
    first = json.loads(world.pub(relay.uri, "c", "hello", "--id", "a:b", "--json").succeeds())
    assert first["duplicate"] is False
    for end, routes in ((signal.SIGKILL, "stream"), (signal.SIGTERM, "datagram"), (signal.SIGKILL, "both")):
        relay.signal(end)
        relay.wait()
        relay = world.relay(listen=relay.address)
        again = json.loads(world.pub(relay.uri, "c", "hello", "--id", "a:b", "--json", "--routes", routes).succeeds())
        assert again["duplicate"] is True, again
        for key in ("client_id", "id", "seq", "timestamp"):
            assert again[key] == first[key], (again, first)
    out, err = world.pub(relay.uri, "c", "other words", "--id", "a:b", "--json").ends(lib.REFUSED)
    assert json.loads(out)["code"] == "client_id_conflict", (out, err)
    # Two senders, one client id: two rows.
    other = json.loads(world.pub(relay.uri, "c", "hello", "--id", "a:b", "--json", key="sub").succeeds())
    assert other["duplicate"] is False and other["seq"] == 2, other
    assert len(stored(world, relay.uri, "c", 2)) == 2


def test_every_way_to_send_is_the_same_send(world):
    """S4: one line, as an argument, from stdin and through a spool, under one client id: one row, one answer."""
    relay = world.relay()
    first = json.loads(world.pub(relay.uri, "c", "hello", "--id", "hello", "--json").succeeds())
    for options in ((), ("--spool", world.path("spool")), ("--routes", "stream"), ("--routes", "datagram")):
        pub = world.pub(relay.uri, "c", "--id-from", "line", "--json", *options, stdin=b"hello\n")
        again = json.loads(pub.succeeds())
        assert again["duplicate"] is True, (options, again)
        for key in ("client_id", "id", "seq", "timestamp"):
            assert again[key] == first[key], (options, again, first)
    assert len(stored(world, relay.uri, "c", 1)) == 1


def test_second_relay_on_the_same_data_is_refused(world):
    relay = world.relay()
    second = world.twofold("relay", "--listen", "127.0.0.1:0", "--data", world.path("relay"))
    _, err = second.ends(lib.NEGATIVE)
    assert "in use by another relay" in err, err
    world.pub(relay.uri, "c", "still there").succeeds()


lib.main(globals())
