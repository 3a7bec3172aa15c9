"""Losing a route is not felt (P3): in a network namespace of its own, with rules that drop silently below the sockets,
TCP is dropped for 4 s, healed for 2 s, then UDP is dropped for 4 s, at 2000 messages a second.

Loss, repeats and order are always judged. The longest pause between two deliveries is printed, and must be at most
50 ms when TF_TIMING=1 (on a busy machine the figure says nothing about the product)."""
import json
import os
import re
import shutil
import subprocess
import sys
import time

import lib

RATE = 2000
LINES = 24000
DEAD, HEALED = 4, 2  # seconds
LIMIT = 0.050
INSIDE = "TF_INSIDE_NAMESPACE"


def run(*command):
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def dropped():
    """Packets that the rules of the table have dropped so far."""
    counts = re.findall(r"counter packets (\d+)", run("nft", "list", "table", "inet", "hurt"))
    return sum(int(count) for count in counts)


def drop(protocol, port):
    run("nft", f"add rule inet hurt in {protocol} dport {port} counter drop; "
               f"add rule inet hurt in {protocol} sport {port} counter drop")


def heal():
    run("nft", "flush", "chain", "inet", "hurt", "in")


def outage(protocol, port):
    """Drops all packets of a protocol for a while; how many the kernel counted, and when the while began and ended."""
    began = time.monotonic()
    drop(protocol, port)
    time.sleep(DEAD)  # the length of the fault
    count = dropped()
    heal()
    assert count > 0, f"the rules dropped no {protocol}"
    return count, began, time.monotonic()


def gaps(output, spans):
    """For each (name, from, to): the longest pause between deliveries in it, in seconds, and the overall one."""
    longest = {name: 0.0 for name, _, _ in spans}
    with output.changed:
        arrivals = [when for (when, lines), (_, before) in zip(output.arrivals[1:], output.arrivals) if lines > before]
    for before, when in zip(arrivals, arrivals[1:]):
        for name, begin, end in spans:
            if when >= begin and before <= end:
                longest[name] = max(longest[name], when - before)
    return longest


def test_tcp_then_udp_silently_dropped_is_not_felt(world):
    run("nft", "add table inet hurt; add chain inet hurt in { type filter hook input priority 0; }")
    relay = world.relay()
    sub = world.sub(relay.uri, "c", "--json", "--verify", "--from", "first", "-n", str(LINES))
    pub = world.pub(relay.uri, "c", "--rate", str(RATE), "--count", str(LINES), "--size", "128")
    sub.out.wait_lines(RATE)
    started = time.monotonic()
    tcp_dropped, *tcp = outage("tcp", relay.port)
    time.sleep(HEALED)  # the length of the pause between the faults
    udp_dropped, *udp = outage("udp", relay.port)
    assert sub.out.lines < LINES, "everything had come before the end of the outages"
    assert pub.succeeds() == b""
    activities = [json.loads(line) for line in sub.succeeds().splitlines()]
    ended = time.monotonic()
    assert [each["seq"] for each in activities] == list(range(1, LINES + 1))
    assert [each["body"].rstrip(".") for each in activities] == [str(number) for number in range(1, LINES + 1)]
    longest = gaps(sub.out, [("all", started, ended), ("tcp", *tcp), ("udp", *udp)])
    shown = ", ".join(f"{name} {1000 * gap:.1f} ms" for name, gap in longest.items())
    print(f"        rules dropped {tcp_dropped} TCP and {udp_dropped} UDP packets; longest pause: {shown}")
    if lib.TIMING:
        assert longest["all"] <= LIMIT, f"a pause of {1000 * longest['all']:.1f} ms; the limit is {1000 * LIMIT:.0f} ms"


def enter_namespace():
    """Starts this script again in a network namespace of its own; skips aloud when there can be none."""
    for tool in ("unshare", "ip", "nft"):
        if not shutil.which(tool, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin"):
            print(f"skipped test_hitless: {tool} is not installed\n0 passed, 0 failed, 1 skipped")
            sys.exit(77)
    command = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-Urn"]
    probe = "ip link set lo up && nft add table inet probe && nft delete table inet probe"
    tried = subprocess.run([*command, "sh", "-c", probe], check=False, capture_output=True, text=True)
    if tried.returncode != 0:
        print(f"skipped test_hitless: {' '.join(command)}: {' '.join(tried.stderr.split())}\n"
              "0 passed, 0 failed, 1 skipped")
        sys.exit(77)
    os.environ[INSIDE] = "1"
    script = ["sh", "-c", 'ip link set lo up && exec "$@"', "sh", sys.executable, os.path.abspath(__file__)]
    os.execvp(command[0], [*command, *script, *sys.argv[1:]])


if INSIDE not in os.environ:
    os.environ["PATH"] = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    enter_namespace()
lib.main(globals())
