"""Datagram keys that are moved on every 1000 packets, with loss and reordering and no other route to mend it (P2)."""
import re

import lib

LINES = 200000
PACKETS = 1000


def test_key_phase_each_1000_packets_loses_and_repeats_nothing(world):
    lines = lib.numbered_lines(LINES, size=32)
    relay = world.relay("-c", world.write("phases.ini", f"[limits]\nkey_phase_packets = {PACKETS}\n".encode()))
    faults = ("--udp-drop", "5", "--udp-reorder", "10")
    forwarders = [world.forwarder(relay, *faults, "--seed", str(seed)) for seed in (1, 2)]
    options = ("--routes", "datagram", "--stats")
    sub = world.sub(relay.uri_via(forwarders[0]), "phases", *options, "--verify", "--from", "first", "-n", str(LINES))
    with open(world.write("lines", b"\n".join(lines) + b"\n"), "rb") as file:
        pub = world.pub(relay.uri_via(forwarders[1]), "phases", *options, stdin=file)
    pub.ends(0)
    lib.same_lines(sub.ends(0)[0], lines, "the subscriber")
    for program, forwarder in ((sub, forwarders[0]), (pub, forwarders[1])):
        stats = forwarder.stats()
        assert stats["datagram_up_dropped"] > 0 and stats["datagram_down_reordered"] > 0, stats
        phases = int(re.findall(r"phase (\d+)", program.err.text())[-1])
        print(f"        {phases} key phases")
        assert phases >= 10, stats


lib.main(globals())
