"""Both routes dead for a while: the session is resumed, not replaced, and everything comes once, in order (P2, P3)."""
import time

import lib

OUTAGE = 20 if lib.LONG else 6  # seconds; TF_LONG=1: the long one
LINES = 12000
RATE = 1500


def sessions(relay, peer):
    """The sessions of a client until its first was closed. What it dialled just before it ended may arrive after its CLOSE,
    and is then the beginning, and at once the end, of another; that is no session lost."""
    began = []
    for line in relay.err.text().splitlines():
        if peer[:8] in line and " event=session_closed " in line and " code=normal " in line:
            break
        if peer[:8] in line and " event=session_started " in line:
            began.append(line)
    return began


def test_both_routes_dead_and_healed_resumes_the_session(world):
    lines = lib.numbered_lines(LINES)
    relay = world.relay()
    forwarders = [world.forwarder(relay), world.forwarder(relay)]
    sub = world.sub(relay.uri_via(forwarders[0]), "c", "--verify", "--from", "first", "-n", str(LINES))
    with open(world.write("lines", b"\n".join(lines) + b"\n"), "rb") as file:
        pub = world.pub(relay.uri_via(forwarders[1]), "c", "--rate", str(RATE), stdin=file)
    sub.out.wait_lines(LINES // 6)
    for forwarder in forwarders:
        forwarder.command("stream cut")
        forwarder.command("datagram cut")
    time.sleep(OUTAGE)  # the length of the fault
    before = sub.out.lines
    assert before < LINES, "everything had come before the outage"
    for forwarder in forwarders:
        forwarder.command("datagram heal")
        forwarder.command("stream heal")
    healed = time.monotonic()
    sub.out.wait_lines(before + 1)
    print(f"        dead for {OUTAGE} s; the first line came {time.monotonic() - healed:.1f} s after healing")
    assert pub.succeeds() == b""
    lib.same_lines(sub.succeeds(), lines, "the subscriber")
    for name in ("pub", "sub"):
        mine = sessions(relay, world.id(name))
        assert len(mine) == 1, f"{name} had {len(mine)} sessions: {mine}"


def test_stream_cut_and_healed_is_a_new_generation_of_the_same_session(world):
    relay = world.relay()
    forwarder = world.forwarder(relay)
    sub = world.sub(relay.uri_via(forwarder), "c", "--verify", "--from", "first", "-n", "2")
    world.pub(relay.uri, "c", "one").succeeds()
    sub.out.wait_lines(1)
    forwarder.command("stream cut")
    forwarder.command("stream heal")
    relay.err.wait_match(r"event=stream_up peer=\S+ generation=\d+ resumed=true")
    world.pub(relay.uri, "c", "two").succeeds()
    assert sub.succeeds() == b"one\ntwo\n"
    mine = sessions(relay, world.id("sub"))
    assert len(mine) == 1, mine


def test_stream_redialled_while_datagrams_flow_resumes_the_session(world):
    """What goes out and is acked by datagrams while HELLO and WELCOME are on their slow way is no fault of anybody's."""
    relay = world.relay()
    forwarder = world.forwarder(relay, "--tcp-delay", "40")
    pub = world.pub(relay.uri_via(forwarder), "c", "--count", "18000", "--rate", "3000", "-v")
    pub.err.wait_match(r"event=route peer=\S+ route=datagram verdict=up")
    for generation in range(2, 5):
        forwarder.command("stream cut")
        forwarder.command("stream heal")
        pub.err.wait_match(rf"event=stream_up peer=\S+ generation={generation} resumed=true")
        relay.err.wait_match(rf"event=stream_up peer=\S+ generation={generation} resumed=true")
    pub.wait()
    mine = sessions(relay, world.id("pub"))
    assert len(mine) == 1, mine
    assert "not allowed" not in pub.err.text(), pub.err.text() # a WELCOME that was taken for a fault


def test_resume_with_both_routes_cut_in_the_middle_of_everything(world):
    """Several short outages; each time the ring of either side is resumed where it was."""
    lines = lib.numbered_lines(LINES)
    relay = world.relay()
    forwarder = world.forwarder(relay)
    uri = relay.uri_via(forwarder)
    sub = world.sub(uri, "c", "--verify", "--from", "first", "-n", str(LINES))
    with open(world.write("lines", b"\n".join(lines) + b"\n"), "rb") as file:
        pub = world.pub(uri, "c", "--rate", "6000", stdin=file)
    for part in range(1, 5):
        sub.out.wait_lines(part * LINES // 6)
        forwarder.command("stream cut")
        forwarder.command("datagram cut")
        forwarder.command("stream heal")
        forwarder.command("datagram heal")
    assert pub.succeeds() == b""
    lib.same_lines(sub.succeeds(), lines, "the subscriber")
    for name in ("pub", "sub"):
        mine = sessions(relay, world.id(name))
        assert len(mine) == 1, f"{name} had {len(mine)} sessions: {mine}"


lib.main(globals())
