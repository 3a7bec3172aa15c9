"""sub --durable: the relay keeps the position, over restarts of both."""
import json
import signal
import subprocess

import lib
from lib import INTERRUPTED, OK, REFUSED, TIMEOUT


def durable(world, relay, *arguments, name="d"):
    return world.sub(relay.uri, "c", "--durable", name, *arguments)


def numbers(output):
    return [int(line) for line in output.split()]


def cursors(world, relay):
    out = world.twofold("channel", "info", "-i", world.key("sub"), relay.uri, "c", "--json").succeeds()
    return {cursor["name"]: cursor["next"] for cursor in json.loads(out)["cursors"]}


def fill(world, relay, count):
    world.pub(relay.uri, "c", "--count", str(count)).succeeds()


def test_the_next_one_goes_on_behind_what_was_printed(world):
    relay = world.relay()
    fill(world, relay, 10)
    assert numbers(durable(world, relay, "--from", "first", "-n", "3").succeeds()) == [1, 2, 3]
    assert cursors(world, relay) == {"d": 4}
    assert numbers(durable(world, relay, "--from", "first", "-n", "4").succeeds()) == [4, 5, 6, 7]
    assert numbers(durable(world, relay, "--from", "2", "-n", "3").succeeds()) == [8, 9, 10]
    out, _ = durable(world, relay, "-W", "0.3").ends(TIMEOUT)
    assert out == b"" and cursors(world, relay) == {"d": 11}


def test_from_counts_when_there_is_no_position_and_others_have_their_own(world):
    relay = world.relay()
    fill(world, relay, 5)
    assert numbers(durable(world, relay, "--from", "4", "-n", "2", name="e").succeeds()) == [4, 5]
    out, _ = durable(world, relay, "-W", "0.3", name="new").ends(TIMEOUT)  # new: it begins here, and that is kept
    assert out == b""
    fill(world, relay, 2)
    assert numbers(durable(world, relay, "-n", "2", name="new").succeeds()) == [1, 2]
    assert cursors(world, relay) == {"e": 6, "new": 8}


def test_interrupted_it_confirms_what_it_printed(world):
    relay = world.relay()
    fill(world, relay, 1000)
    first = durable(world, relay, "--from", "first")
    first.out.wait_lines(1000)
    first.signal(signal.SIGINT)
    first.ends(INTERRUPTED)
    fill(world, relay, 1)
    assert numbers(durable(world, relay, "-n", "1").succeeds()) == [1]
    assert cursors(world, relay) == {"d": 1002}


def test_forget_begins_anew(world):
    relay = world.relay()
    fill(world, relay, 3)
    durable(world, relay, "--from", "first", "-n", "3").succeeds()
    assert durable(world, relay, "--forget").succeeds() == b""
    assert cursors(world, relay) == {}
    assert durable(world, relay, "--forget").succeeds() == b""  # it is gone all the same
    assert numbers(durable(world, relay, "--from", "first", "-n", "1").succeeds()) == [1]
    _, err = world.sub(relay.uri, "missing", "--durable", "d", "--forget").ends(REFUSED)
    assert "channel_not_found" in err, err


def test_another_one_takes_over(world):
    relay = world.relay()
    fill(world, relay, 5)
    first = durable(world, relay, "--from", "first")
    first.out.wait_lines(5)
    second = durable(world, relay, "--from", "first")
    _, err = first.ends(REFUSED)
    assert "ended: taken_over" in err, err
    fill(world, relay, 1)
    second.out.wait_lines(1)
    second.signal(signal.SIGINT)
    out, _ = second.ends(INTERRUPTED)
    printed = numbers(out)
    # What the first one had printed and not told the relay comes again: the end of 1 ... 5, then the sixth message.
    assert printed[-1] == 1 and printed[:-1] == list(range(7 - len(printed), 6)), printed


def follow(seen, out):
    """The numbers go on where they were, or repeat an end of what was printed before."""
    got = [number for number in numbers(out)]
    for number in got:
        assert number <= len(seen) + 1, f"{number} came after {len(seen)}"
        if number == len(seen) + 1:
            seen.append(number)
    assert got == list(range(got[0], got[0] + len(got))) if got else True, "a gap or a repeat within one run"


def test_killed_ones_lose_nothing(world):
    """Both are killed, again and again, in the middle of it."""
    relay = world.relay()
    pub = world.pub(relay.uri, "c", "--count", "3000", "--rate", "1500")
    seen = []
    for round_number in range(4):
        sub = durable(world, relay, "--from", "first")
        sub.out.wait_lines(200)
        if round_number % 2 == 1:
            relay.kill()
            relay = world.relay(listen=relay.address)
            sub.out.wait_lines(400)
        sub.kill()
        out = sub.out.wait_end()
        follow(seen, out[:out.rfind(b"\n") + 1])
    pub.succeeds()
    rest = durable(world, relay, "--from", "first", "--json")
    rest.out.wait_for(b'"seq":3000,')
    rest.signal(signal.SIGTERM)
    out, _ = rest.ends(INTERRUPTED)
    follow(seen, b"".join(json.loads(line)["body"].encode() + b"\n" for line in out.splitlines()))
    assert seen == list(range(1, 3001)), len(seen)
    assert cursors(world, relay) == {"d": 3001}


def test_position_survives_a_restart_of_the_relay(world):
    relay = world.relay()
    fill(world, relay, 10)
    durable(world, relay, "--from", "first", "-n", "6").succeeds()
    relay.kill()
    relay = world.relay(listen=relay.address)
    assert cursors(world, relay) == {"d": 7}
    assert numbers(durable(world, relay, "-n", "4").succeeds()) == [7, 8, 9, 10]


def test_while_it_moves_the_relay_is_told(world):
    """Without an end: the position follows what is printed."""
    relay = world.relay()
    sub = durable(world, relay, "--from", "first")
    pub = world.pub(relay.uri, "c", stdin=subprocess.PIPE)
    pub.process.stdin.write(b"1\n2\n")
    pub.process.stdin.flush()
    sub.out.wait_lines(2)
    while cursors(world, relay) != {"d": 3}:  # ends with the test's own limit
        pass
    pub.process.stdin.close()
    pub.ends(OK)


lib.main(globals())
