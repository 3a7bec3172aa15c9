"""A device with a small MTU, which refuses larger packets (EMSGSIZE): nothing is lost, and the largest size that passes is
found. Needs root, for a network namespace of its own."""
import ctypes
import os
import re
import subprocess

import lib

CLONE_NEWNET = 0x40000000
LINES = 20000


def enter_network(mtu):
    """This process, and those it starts, see nothing but a loopback device with this MTU from here on."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        raise lib.Skip(f"no network namespace: {os.strerror(ctypes.get_errno())}")
    subprocess.run(["ip", "link", "set", "lo", "mtu", str(mtu), "up"], check=True)


def test_small_device_gets_the_largest_packets_that_it_takes(world):
    enter_network(1450)
    lines = lib.numbered_lines(LINES)
    relay = world.relay()
    options = ("--routes", "datagram", "--stats")
    sub = world.sub(relay.uri, "sizes", *options, "--verify", "--from", "first", "-n", str(LINES))
    with open(world.write("lines", b"\n".join(lines) + b"\n"), "rb") as file:
        pub = world.pub(relay.uri, "sizes", *options, stdin=file)
    lib.same_lines(sub.ends(0)[0], lines, "the subscriber")
    _, said = pub.ends(0)
    print("        " + re.search(r"packet.*1392.*", said)[0])


lib.main(globals())
