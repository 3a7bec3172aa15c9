"""Faults of all kinds, one after the other, at random: nothing is lost, repeated or out of order, and once the routes are
whole everything arrives (P2, P3). The seed is printed; TF_SEED chooses another, TF_LONG=1 goes on for longer."""
import os
import random
import time

import lib

SEED = int(os.environ.get("TF_SEED", "1"))
SECONDS = 60 if lib.LONG else 8
RATE = 2500
COMMANDS = ["stream cut", "stream heal", "stream stall", "stream stall up", "stream stall down", "stream flow",
            "datagram cut", "datagram cut up", "datagram cut down", "datagram heal", "datagram rebind",
            "udp-drop 30", "udp-drop 0", "udp-repeat 30", "udp-repeat 0", "udp-reorder 30", "udp-reorder 0",
            "udp-delay 20", "udp-delay 0", "tcp-delay 20", "tcp-delay 0", "tcp-close-every 200", "tcp-close-every 0"]
HEALING = ["stream heal", "stream flow", "datagram heal", "udp-drop 0", "udp-repeat 0", "udp-reorder 0", "udp-delay 0",
           "tcp-delay 0", "tcp-close-every 0"]


def chaos(world, *options):
    print(f"        seed {SEED}", flush=True)
    rng = random.Random(SEED)
    lines = lib.numbered_lines(SECONDS * RATE, seed=SEED)
    relay = world.relay()
    forwarders = [world.forwarder(relay, "--seed", str(SEED + number)) for number in (0, 1)]
    sub = world.sub(relay.uri_via(forwarders[0]), "c", "--verify", "--from", "first", "-n", str(len(lines)), *options)
    with open(world.write("lines", b"\n".join(lines) + b"\n"), "rb") as file:
        pub = world.pub(relay.uri_via(forwarders[1]), "c", "--rate", str(RATE), *options, stdin=file)
    sub.out.wait_lines(1)
    done = []
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        number = rng.randrange(2)
        command = rng.choice(COMMANDS)
        forwarders[number].command(command)
        done.append(f"{number}: {command}")
        time.sleep(rng.uniform(0.02, 0.5))  # the length of the fault
    for forwarder in forwarders:
        for command in HEALING:
            forwarder.command(command)
    healed = time.monotonic()
    try:
        assert pub.succeeds() == b""
        lib.same_lines(sub.succeeds(), lines, "the subscriber")
    except AssertionError as error:
        raise AssertionError(f"{error}; {sub.out.lines} of {len(lines)} lines had come; commands: {done}") from error
    print(f"        {len(done)} commands; {time.monotonic() - healed:.1f} s from healing to the last line")


def test_random_faults_on_both_routes(world):
    chaos(world)


def test_random_faults_with_the_datagram_route_alone_in_use(world):
    chaos(world, "--routes", "datagram")


def test_random_faults_with_the_stream_alone(world):
    if not lib.LONG:
        raise lib.Skip("waiting for redials takes up to half a minute; TF_LONG=1 runs it")
    chaos(world, "--routes", "stream")


lib.main(globals())
