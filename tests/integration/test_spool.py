"""pub --spool: what pub has read and spooled is stored once, in order, whatever kills it, its relay or its connection."""
import ctypes
import json
import os
import random
import signal
import subprocess

import lib
from lib import INTERRUPTED, NEGATIVE, OK, REFUSED, UNREACHABLE, USAGE


def text_of(lines):
    return b"".join(line + b"\n" for line in lines)


def stored(world, relay, name="c"):
    return world.twofold("cat", "-i", world.key("pub"), relay.uri, name).succeeds().splitlines()


def drain(world, uri, name="c", *arguments):
    return world.pub(uri, name, "--spool", world.path("spool"), *arguments)


def restarted(world, relay):
    relay.kill()
    return world.relay(listen=relay.address)


def test_every_spooled_line_is_stored_once_however_often_pub_is_killed(world):
    """Killed after so many acks; what it had not spooled by then is given again."""
    relay = world.relay()
    lines = lib.numbered_lines(30000, size=60)
    dice = random.Random(4)
    done = 0
    duplicates = 0
    for _ in range(6):
        acks = dice.choice((1, 40, 500, 3000))
        given = lines[done:done + acks + 1000]
        pub = drain(world, relay.uri, "c", "--json", "-f", world.write("input", text_of(given)))
        pub.out.wait_lines(acks)
        pub.kill()
        acked = [json.loads(line) for line in pub.out.wait_end().splitlines() if line.endswith(b"}")]
        out = drain(world, relay.uri, "c", "--json").succeeds()
        duplicates += sum(json.loads(line)["duplicate"] for line in out.splitlines())
        now = stored(world, relay)
        assert len(now) >= done + acks and len(now) >= max(ack["seq"] for ack in acked), (len(now), done, acks)
        lib.same_lines(text_of(now), lines[:len(now)], "the channel")
        done = len(now)
    drain(world, relay.uri, "c", "-f", world.write("input", text_of(lines[done:]))).succeeds()
    lib.same_lines(text_of(stored(world, relay)), lines, "the channel")
    print(f"    {duplicates} sends were acked as duplicates", flush=True)


def test_both_are_killed(world):
    """The relay, too: it comes back on the same port with what it had stored."""
    relay = world.relay()
    lines = lib.numbered_lines(5000, size=60)
    done = 0
    for acks in (700, 30):
        given = lines[done:done + acks + 1000]
        pub = drain(world, relay.uri, "c", "--json", "-f", world.write("input", text_of(given)))
        pub.out.wait_lines(acks)
        relay = restarted(world, relay)
        pub.out.wait_lines(acks + 300)
        relay.kill()
        pub.kill()
        relay = world.relay(listen=relay.address)
        drain(world, relay.uri).succeeds()
        done = len(stored(world, relay))
    drain(world, relay.uri, "c", "-f", world.write("input", text_of(lines[done:]))).succeeds()
    lib.same_lines(text_of(stored(world, relay)), lines, "the channel")


def test_without_a_relay_it_is_kept_for_the_next_time(world):
    relay = world.relay()
    relay.kill()
    for line in (b"one\n", b"two\nthree\n"):
        _, err = world.pub(relay.uri, "c", "--spool", world.path("spool"), "--connect-timeout", "300ms",
                           stdin=line).ends(UNREACHABLE)
        assert "cannot reach" in err, err
    relay = world.relay(listen=relay.address)
    acks = [json.loads(line) for line in drain(world, relay.uri, "c", "--json").succeeds().splitlines()]
    assert [(ack["seq"], ack["duplicate"]) for ack in acks] == [(1, False), (2, False), (3, False)], acks
    assert stored(world, relay) == [b"one", b"two", b"three"]
    assert drain(world, relay.uri, "c", "--json").succeeds() == b""


def test_what_an_earlier_pub_left_goes_first_with_what_belongs_to_it(world):
    relay = world.relay()
    relay.kill()
    world.pub(relay.uri, "c", "old", "--id", "order-1", "--meta", "m", "--expires", "1h", "--spool", world.path("spool"),
              "--connect-timeout", "300ms").ends(UNREACHABLE)
    relay = world.relay(listen=relay.address)
    world.pub(relay.uri, "c", "new", "--spool", world.path("spool")).succeeds()
    out = world.twofold("cat", "-i", world.key("pub"), relay.uri, "c", "--json").succeeds()
    old, new = [json.loads(line) for line in out.splitlines()]
    assert (old["body"], old["client_id"], old["meta"], new["body"]) == ("old", "order-1", "m", "new"), (old, new)
    assert old["expires"] < old["timestamp"] + 3600000


def test_a_spool_has_one_user_and_one_destination(world):
    relay = world.relay()
    first = world.pub(relay.uri, "c", "--spool", world.path("spool"), "--json", stdin=subprocess.PIPE)
    first.process.stdin.write(b"x\n")
    first.process.stdin.flush()
    first.out.wait_lines(1)
    _, err = drain(world, relay.uri).ends(NEGATIVE)
    assert "another process has it open" in err, err
    first.process.stdin.close()
    first.ends(OK)
    _, err = drain(world, relay.uri, "other").ends(USAGE)
    assert "it holds sends for channel 'c', not for 'other'" in err, err
    _, err = world.pub(relay.uri, "c", "--spool", world.path("spool"), key="sub").ends(USAGE)
    assert f"of the identity {world.id('pub')}, not {world.id('sub')}" in err, err
    other = world.relay(data="other")
    _, err = drain(world, other.uri).ends(USAGE)
    assert f"for the relay {relay.node}, not {other.node}" in err, err


def test_refused_for_good_leaves_the_spool(world):
    relay = world.relay()
    world.pub(relay.uri, "c", "before").succeeds()
    world.twofold("channel", "close", "-i", world.key("pub"), relay.uri, "c").succeeds()
    _, err = world.pub(relay.uri, "c", "--spool", world.path("spool"), stdin=b"one\ntwo\n").ends(REFUSED)
    assert err.count("was refused: channel_closed") == 2, err
    drain(world, relay.uri).succeeds()


def test_interrupted_it_says_what_is_kept(world):
    relay = world.relay()
    pub = world.pub(relay.uri, "c", "--spool", world.path("spool"), "--json", stdin=subprocess.PIPE)
    pub.process.stdin.write(b"one\n")
    pub.process.stdin.flush()
    pub.out.wait_lines(1)
    relay.signal(signal.SIGSTOP)
    pub.process.stdin.write(b"two\nthree\n")
    pub.process.stdin.flush()
    pub.signal(signal.SIGTERM)
    _, err = pub.ends(INTERRUPTED)
    assert "sends were not acked; they are kept in " + world.path("spool") in err, err
    relay.signal(signal.SIGCONT)
    drain(world, relay.uri).succeeds()
    # They were in the pipe when the signal came: read and spooled, or not read.
    assert stored(world, relay) in ([b"one"], [b"one", b"two", b"three"]), stored(world, relay)


def fill_while_away(world, relay, lines, *arguments):
    """A pub whose relay is away, and that is given more than its spool holds."""
    pub = world.pub(relay.uri, "c", "--spool", world.path("spool"), "--json", *arguments, stdin=subprocess.PIPE)
    pub.process.stdin.write(b"first\n")
    pub.process.stdin.flush()
    pub.out.wait_lines(1)
    relay.kill()
    writer = lib.threading.Thread(target=lambda: (pub.process.stdin.write(text_of(lines)), pub.process.stdin.close()),
                                  daemon=True)
    writer.start()
    return pub, writer


def spool_bytes(world):
    return sum(os.path.getsize(os.path.join(folder, name))
               for folder, _, names in os.walk(world.path("spool")) for name in names)


def test_a_full_spool_stops_reading_and_loses_nothing(world):
    relay = world.relay()
    lines = lib.numbered_lines(60000, size=200)
    pub, writer = fill_while_away(world, relay, lines, "--spool-size", "4MiB")
    relay = world.relay(listen=relay.address)
    pub.ends(OK)
    writer.join()
    assert spool_bytes(world) <= 4 * 1024 * 1024 + 65536, spool_bytes(world)
    lib.same_lines(text_of(stored(world, relay)), [b"first"] + lines, "the channel")


def mount_small_disk(path, size):
    os.mkdir(path)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", path.encode(), b"tmpfs", 0, f"size={size}".encode()) != 0:
        raise lib.Skip(f"a file system cannot be mounted here: {os.strerror(ctypes.get_errno())}")
    return lambda: libc.umount2(path.encode(), 2)


def test_a_full_disk_is_said_once_and_loses_nothing(world):
    relay = world.relay()
    lines = lib.numbered_lines(40000, size=200)
    unmount = mount_small_disk(world.path("spool"), "1500k")
    try:
        pub, writer = fill_while_away(world, relay, lines)
        pub.err.wait_for("the disk is full; no input is read until there is room")
        relay = world.relay(listen=relay.address)
        _, err = pub.ends(OK)
        writer.join()
        assert "there is room again" in err, err
        lib.same_lines(text_of(stored(world, relay)), [b"first"] + lines, "the channel")
    finally:
        pub.kill()
        unmount()


lib.main(globals())
