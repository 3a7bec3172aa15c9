"""A relay that is restarted: what it acked is there afterwards, clients come back by themselves, and what was not acked
before is sent again. One that keeps its channels in memory has lost them, which it says (another channel epoch)."""
import signal

import lib


def in_memory(world):
    return "-c", world.write("memory.conf", "[store]\nkind = memory\n")


def restarted(world, relay, end, *options):
    """The same relay again: same key, same port."""
    relay.signal(end)
    status = relay.wait()
    assert status == (0 if end == signal.SIGTERM else -end), status
    again = world.relay(*options, listen=relay.address)
    assert again.uri == relay.uri, f"{again.uri} is not {relay.uri}"
    return again


def clients_go_on(world, end):
    relay = world.relay()
    sub = world.sub(relay.uri, "c", "--from", "first", "-n", "4")
    pub = world.pub(relay.uri, "c", stdin=lib.subprocess.PIPE)
    for line in (b"one\n", b"two\n"):
        pub.process.stdin.write(line)
    pub.process.stdin.flush()
    sub.out.wait_lines(2)
    restarted(world, relay, end)
    pub.process.stdin.write(b"three\nfour\n")
    pub.process.stdin.close()
    assert pub.succeeds() == b""
    out, err = sub.ends(lib.OK)
    assert out == b"one\ntwo\nthree\nfour\n", out
    assert "epoch" not in err, f"something was lost: {err!r}"


def test_clients_go_on_after_term(world):
    clients_go_on(world, signal.SIGTERM)


def test_clients_go_on_after_kill(world):
    clients_go_on(world, signal.SIGKILL)


def test_a_relay_that_drains_does_not_wait_for_who_is_gone(world):
    relay = world.relay()
    sub = world.sub(relay.uri, "c", "--from", "first")
    world.pub(relay.uri, "c", "m").succeeds()
    sub.out.wait_lines(1)
    sub.signal(signal.SIGKILL)
    sub.wait()
    world.pub(relay.uri, "c", "n").succeeds()  # which waits for the subscriber, in its session
    relay.signal(signal.SIGTERM)
    _, err = relay.ends(lib.OK)
    assert "event=stopped drained=true" in err, err


def test_verify_ends_with_1_when_the_channel_was_lost(world):
    options = in_memory(world)
    relay = world.relay(*options)
    sub = world.sub(relay.uri, "c", "--from", "first", "--verify")
    world.pub(relay.uri, "c", "one").succeeds()
    sub.out.wait_lines(1)
    restarted(world, relay, signal.SIGKILL, *options)
    out, err = sub.ends(lib.NEGATIVE)
    assert out == b"one\n" and "another channel epoch" in err, (out, err)


def test_sends_while_the_relay_is_away_wait_for_it(world):
    """More than fits anywhere on the way: pub stops reading, loses nothing, and ends with 0."""
    lines = lib.numbered_lines(5000)
    relay = world.relay()
    pub = world.pub(relay.uri, "c", stdin=lib.subprocess.PIPE)
    pub.process.stdin.write(b"first\n")
    pub.process.stdin.flush()
    probe = world.sub(relay.uri, "c", "--from", "first", "-n", "1")
    assert probe.succeeds() == b"first\n"
    relay.signal(signal.SIGKILL)
    relay.wait()
    writer = lib.threading.Thread(target=lambda: (pub.process.stdin.write(b"\n".join(lines) + b"\n"),
                                                  pub.process.stdin.close()), daemon=True)
    writer.start()
    again = world.relay(listen=relay.address)
    assert pub.succeeds() == b""
    writer.join()
    sub = world.sub(again.uri, "c", "--verify", "--from", "first", "-n", str(len(lines) + 1))
    lib.same_lines(sub.succeeds(), [b"first"] + lines, "the subscriber")


lib.main(globals())
