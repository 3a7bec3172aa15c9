"""Peers that hold places, ack nothing or everything, mention more than they may, or come until no descriptor is left (P7):
each meets a limit that has a name (proto/limits.h, [limits]), a publisher and a subscriber beside them lose nothing, and
the log is short."""
import re
import resource
import selectors
import signal
import socket

import lib
from hostile import LOG_BURST, LOG_LINES_MAX, Hostile, Traffic, client_hello, sockets

HANDSHAKES = 16         # [limits] handshakes in these tests
REFS_MAX = 131072       # TF_REFS_MAX
PROMISES_MAX = 65536    # TF_PROMISES_MAX, of which
RESULTS_MAX = 8192      # TF_RESULTS_MAX may be owed at a time
INSTANCES_PER_PEER = 16  # TF_INSTANCES_PER_PEER
LINGERS_MAX = 512       # TF_LINGERS_MAX
WINDOW = 256 * 1024     # that a peer announces which acks nothing


def relay_with(world, limits, *options, segment="1MiB"):
    config = world.write("limits.conf", f"[store]\nsegment_size = {segment}\n[limits]\n{limits}\n")
    return world.relay("-c", config, *options)


class Attackers:
    """Many connections that are never more than half made: nothing is sent, or a byte of a TLS handshake at a time. Whoever
    is turned away comes again at once."""

    def __init__(self, relay, count, data):
        self.relay = relay
        self.data = data
        self.selector = selectors.DefaultSelector()
        self.turned_away = 0
        for _ in range(count):
            self.connect()

    def connect(self):
        sock = socket.socket()
        sock.setblocking(False)
        sock.connect_ex(("127.0.0.1", self.relay.port))
        self.selector.register(sock, selectors.EVENT_READ, [0])

    def turn(self):
        for key, _ in self.selector.select(0.02):
            try:
                gone = key.fileobj.recv(4096) == b""
            except BlockingIOError:
                gone = False
            except OSError:
                gone = True
            if gone:
                self.turned_away += 1
                self.close(key.fileobj)
                self.connect()
        for key in list(self.selector.get_map().values()):
            at = key.data[0]
            if at < len(self.data):
                try:
                    key.data[0] += key.fileobj.send(self.data[at:at + 1])
                except OSError:
                    pass  # not connected yet, or not any more: the next turn sees it

    def close(self, sock):
        self.selector.unregister(sock)
        sock.close()

    def end(self):
        for key in list(self.selector.get_map().values()):
            self.close(key.fileobj)
        self.selector.close()


def holds_places(world, data):
    """Twice as many as there are places, again and again: a client that comes then is served all the same."""
    relay = relay_with(world, f"handshakes = {HANDSHAKES}")
    traffic = Traffic(world, relay)
    traffic.send()
    before, lines = sockets(relay), relay.err.lines
    attackers = Attackers(relay, 2 * HANDSHAKES, data)
    relay.err.wait_for("event=handshakes_full")
    client = world.pub(relay.uri, "other", "hello", "--connect-timeout", "2m")
    most = 0
    while client.is_running() or attackers.turned_away < HANDSHAKES:
        attackers.turn()
        traffic.send()
        most = max(most, sockets(relay) - before)
    client.succeeds()
    attackers.end()
    traffic.ends_well()
    assert most <= HANDSHAKES + 1, f"{most} sockets of strangers and a client; {HANDSHAKES} handshakes are the limit"
    assert relay.err.lines - lines < LOG_LINES_MAX, relay.err.text()


def test_half_open_connections_hold_no_place_for_long(world):
    holds_places(world, b"")


def test_handshakes_byte_by_byte_hold_no_place_for_long(world):
    holds_places(world, client_hello())


def test_who_has_gone_before_it_is_accepted_costs_no_handshake(world):
    relay = world.relay()
    traffic = Traffic(world, relay)
    traffic.send()
    lines = relay.err.lines
    relay.signal(signal.SIGSTOP)
    for _ in range(300):
        with socket.create_connection(("127.0.0.1", relay.port)) as sock:
            sock.sendall(client_hello())
    relay.signal(signal.SIGCONT)
    world.pub(relay.uri, "other", "hello").succeeds()
    traffic.ends_well()
    assert not relay.events("handshake_failed"), relay.err.text()
    assert relay.err.lines - lines < LOG_LINES_MAX, relay.err.text()


def test_peer_that_never_acks_gets_its_window_and_no_more(world):
    relay = world.relay("--accept", "any")
    traffic = Traffic(world, relay)
    traffic.send()
    lines = relay.err.lines
    hostile = Hostile(world, "never-ack", relay.uri, "--window-bytes", str(WINDOW))
    hostile.go()
    hostile.wait_served()
    traffic.send(3000, 1000)  # more than ten windows
    counts = hostile.wait_counts(lambda now: now["bytes"] > WINDOW // 2, "it was sent its window")
    assert counts["bytes"] <= WINDOW and counts["up"] == 1, counts
    hostile.kill()
    traffic.ends_well()
    assert relay.err.lines - lines < LOG_LINES_MAX, relay.err.text()


def ends_with(world, code, mode, *options):
    """Such a peer is told off with a code, and nobody else notices; its counts."""
    relay = world.relay("--accept", "any")
    traffic = Traffic(world, relay)
    traffic.send()
    lines = relay.err.lines
    hostile = Hostile(world, mode, relay.uri, *options)
    hostile.go()
    closed = hostile.out.wait_match(rf"closed code=(\w+) said=(\d+)\n")
    traffic.send(10)
    hostile.leaves()
    traffic.ends_well()
    assert closed.group(1).decode() == code, closed.group(0)
    assert len(relay.events("session_failed")) == 1, relay.err.text()
    assert relay.err.lines - lines < LOG_LINES_MAX, relay.err.text()
    return int(closed.group(2))


def test_peer_that_acks_segments_never_sent_is_told_off(world):
    ends_with(world, "bad_ack", "ack-segments")


def test_peer_that_acks_messages_never_sent_is_told_off(world):
    ends_with(world, "bad_ack", "ack-messages")


def test_peer_that_mentions_more_refs_than_it_may_is_told_off(world):
    said = ends_with(world, "limit", "refs", "--count", str(REFS_MAX + 10000))
    assert said >= REFS_MAX - 1, f"{said} refs; {REFS_MAX} may be"


def test_peer_that_asks_more_than_it_may_is_told_off(world):
    said = ends_with(world, "limit", "promises", "--count", str(PROMISES_MAX + 10000))
    assert said >= RESULTS_MAX, f"{said} promises; {RESULTS_MAX} may be in any case"


def test_a_hundred_thousand_refs_are_served_beside_others(world):
    relay = world.relay("--accept", "any")
    traffic = Traffic(world, relay)
    traffic.send()
    lines = relay.err.lines
    hostile = Hostile(world, "refs", relay.uri, "--count", "100000")
    hostile.go()
    hostile.wait_counts(lambda now: now["said"] == 100000, "all refs were mentioned")
    traffic.send(100)
    counts = hostile.counts()
    assert counts["up"] == 1 and counts["closed"] == 0, counts
    hostile.leaves()
    relay.err.wait_for("event=session_closed")
    traffic.ends_well()
    assert relay.err.lines - lines < LOG_LINES_MAX, relay.err.text()


def test_more_connections_than_peers_are_refused_until_others_have_gone(world):
    relay = relay_with(world, "peers = 6", "--accept", "any")
    traffic = Traffic(world, relay)
    traffic.send()
    before, lines = sockets(relay), relay.err.lines
    first = Hostile(world, "hold", relay.uri, "--peers", "4")
    first.go()
    first.wait_served()
    second = Hostile(world, "hold", relay.uri, "--peers", "40")
    second.go()
    counts = second.wait_counts(lambda now: now["failed"] >= 80, "they were refused, twice each")
    assert counts["up"] == 0, counts
    assert sockets(relay) - before <= 4 + 40, f"{sockets(relay)} sockets, {before} before"
    traffic.send(10)
    first.leaves()
    second.wait_counts(lambda now: now["up"] == 4, "there is room again")
    second.leaves()
    traffic.ends_well()
    refused = relay.events("hello_refused")
    assert refused and all("code=too_many" in line for line in refused if "suppressed" not in line), relay.err.text()
    # of 4 + 4 peers that were let in: four events, when they come, when they are slow, and when they go
    assert relay.err.lines - lines < LOG_LINES_MAX + 8 * 4 * LOG_BURST, relay.err.text()


def test_one_key_has_no_more_than_its_instances(world):
    relay = world.relay("--accept", "any")
    traffic = Traffic(world, relay)
    traffic.send()
    lines = relay.err.lines
    hostile = Hostile(world, "hold", relay.uri, "--peers", str(2 * INSTANCES_PER_PEER), "-i", world.key("greedy"))
    hostile.go()
    counts = hostile.wait_counts(lambda now: now["failed"] >= 2 * INSTANCES_PER_PEER, "the others were refused")
    assert counts["up"] == INSTANCES_PER_PEER, counts
    traffic.send(10)
    hostile.leaves()
    traffic.ends_well()
    assert relay.err.lines - lines < LOG_LINES_MAX + 5 * LOG_BURST, relay.err.text()  # of five events about that peer


def test_without_descriptors_the_store_goes_on_and_who_comes_later_is_served(world):
    descriptors = 160
    relay = relay_with(world, "", "--accept", "any", segment="256KiB")
    resource.prlimit(relay.process.pid, resource.RLIMIT_NOFILE, (descriptors, descriptors))
    traffic = Traffic(world, relay)
    traffic.send()
    lines = relay.err.lines
    hostile = Hostile(world, "hold", relay.uri, "--peers", "300")
    hostile.go()
    relay.err.wait_for("event=descriptors_used_up", 2)
    traffic.send(3000, 1000)  # ten files of the log
    counts = hostile.counts()
    assert 0 < counts["up"] < descriptors, counts
    for bad in ("store_", "error"):
        assert not re.search(rf"level=error|event={bad}(?!opened)", relay.err.text()), relay.err.text()
    before = relay.err.lines
    hostile.leaves()
    world.pub(relay.uri, "other", "hello").succeeds()
    traffic.ends_well()
    assert before - lines < LOG_LINES_MAX + counts["served"] * 3 * LOG_BURST, relay.err.text()  # three events of each


if __name__ == "__main__":
    lib.main(globals())
