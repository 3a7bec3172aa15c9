"""The main job: 100 000 lines of 128 bytes through a relay to two subscribers, each line once and in order (P2)."""
import time

import lib

LINES = 100000


def main_job(world, routes):
    lines = lib.numbered_lines(LINES)
    text = world.write("lines", b"\n".join(lines) + b"\n")
    relay = world.relay(allow=("pub", "sub", "other"))
    options = ("--routes", routes, "--verify", "--from", "first", "-n", str(LINES))
    subs = [world.sub(relay.uri, "main", *options, key=key) for key in ("sub", "other")]
    started = time.monotonic()
    with open(text, "rb") as file:
        pub = world.pub(relay.uri, "main", "--routes", routes, stdin=file)
    assert pub.succeeds() == b""
    for number, sub in enumerate(subs):
        lib.same_lines(sub.succeeds(), lines, f"subscriber {number}")
    seconds = time.monotonic() - started
    print(f"        --routes {routes}: {LINES} lines in {seconds:.1f} s, {LINES / seconds:.0f} a second")


def test_both_routes_bring_every_line_once_in_order(world):
    main_job(world, "both")


def test_stream_alone_brings_every_line_once_in_order(world):
    main_job(world, "stream")


def test_datagram_alone_brings_every_line_once_in_order(world):
    main_job(world, "datagram")


lib.main(globals())
