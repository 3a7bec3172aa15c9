"""A node that dials, on a machine whose network changes: interfaces that go and come back, ports that a NAT has forgotten,
one-way holes, addresses that do not answer, a path that flaps (P3, P9). In a network namespace of its own, joined to
another one, where the relay is, by two pairs of interfaces: near0 10.97.0.1 - far0 10.97.0.2, near1 10.97.1.1 - far1
10.97.1.2. Needs root."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import lib

INSIDE = "TF_INSIDE_NAMESPACE"
PORT = 7420
FLAPS = 24  # of 0.5 s each
BURST = 3   # dials that may come at once, beyond one a second


def run(*command):
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def nft(rules):
    run("nft", rules)


class Far:
    """The other network namespace; it lives as long as its process."""

    def __init__(self):
        self.process = subprocess.Popen(["unshare", "-n", "sh", "-c", "echo ready; exec sleep 1000"],
                                        stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"
        self.prefix = ["nsenter", "-t", str(self.process.pid), "-n"]
        run(*self.prefix, "ip", "link", "set", "lo", "up")

    def join(self, number):
        near, far = f"near{number}", f"far{number}"
        run("ip", "link", "add", near, "type", "veth", "peer", "name", far, "netns", str(self.process.pid))
        run("ip", "address", "add", f"10.97.{number}.1/24", "dev", near)
        run(*self.prefix, "ip", "address", "add", f"10.97.{number}.2/24", "dev", far)
        run("ip", "link", "set", near, "up")
        run(*self.prefix, "ip", "link", "set", far, "up")

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        for number in (0, 1):
            subprocess.run(["ip", "link", "del", f"near{number}"], check=False, capture_output=True)


class Roaming:
    """The relay over there, and a client here."""

    def __init__(self, world, options="", host="10.97.0.2"):
        self.far = Far()
        nft("add table inet hurt; flush table inet hurt; "
            "add chain inet hurt out { type filter hook output priority 0; }; "
            "add chain inet hurt in { type filter hook input priority 0; }")
        self.far.join(0)
        self.far.join(1)
        config = world.write("far.conf", "[limits]\nkeepalive = 1s\n")
        self.relay = lib.Relay([*self.far.prefix, lib.TWOFOLD, "relay", "-c", config, "--listen", f"0.0.0.0:{PORT}",
                                "--data", world.path("far"), "--accept", "any", "--print-uri"], world.env)
        world.programs.append(self.relay)
        self.world = world
        self.uri = f"twofold://{self.relay.node}@{host}:{PORT}{options}"
        self.client = None

    def start(self):
        """The client; returns when both routes are up."""
        self.client = self.world.sub(self.uri, "c", "-v", "--stats", "--json")
        self.client.err.wait_for("route=stream verdict=up")
        return self.until(lambda stats: self.verdicts(stats) == ("up", "up"))

    @staticmethod
    def verdicts(stats):
        return stats["stream"]["verdict"], stats["datagram"]["verdict"]

    def stats(self):
        """What the client says of its routes now."""
        err = self.client.err
        count = err.text().count('"type":"stats"')
        self.client.signal(signal.SIGUSR1)
        err.wait(lambda: err.data.count(b'"type":"stats"') > count and err.data.endswith(b"\n"), "the statistics")
        stats = json.loads([line for line in err.text().splitlines() if '"type":"stats"' in line][-1])
        return {**stats, **{route["route"]: route for route in stats["routes"]}}

    def until(self, condition):
        stats = self.stats()
        while not condition(stats):
            time.sleep(0.05)  # between two questions
            stats = self.stats()
        assert stats["sessions"] == 1, stats
        return stats

    def redials(self):
        return re.findall(r"event=redial .*reason=(\S+)", self.client.err.text())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for program in (self.client, self.relay):
            if program is not None:
                program.kill()
        self.far.close()


def port(address):
    return int(address.rsplit(":", 1)[1])


def test_interface_that_comes_back_is_used_again_at_once(world):
    with Roaming(world) as r:
        r.start()
        run("ip", "link", "set", "near0", "down")
        r.until(lambda stats: r.verdicts(stats) == ("down", "down"))
        run("ip", "link", "set", "near0", "up")
        stats = r.until(lambda stats: r.verdicts(stats) == ("up", "up"))
        assert "network_changed" in r.redials(), (r.redials(), stats)


def test_bound_interface_that_is_made_anew_is_bound_again(world):
    with Roaming(world, f"?datagram=10.97.1.2:{PORT}&stream-bind=near0&datagram-bind=near1") as r:
        before = r.start()
        run("ip", "link", "del", "near1")
        r.until(lambda stats: stats["datagram"]["verdict"] == "down")
        r.far.join(1)
        stats = r.until(lambda stats: r.verdicts(stats) == ("up", "up"))
        assert stats["datagram"]["local"] != before["datagram"]["local"], stats
        assert stats["stream"]["local"] == before["stream"]["local"], "the other route was touched"


def test_routes_leave_by_the_addresses_of_the_uri(world):
    with Roaming(world, "?stream-bind=10.97.0.8&datagram-bind=10.97.0.9") as r:
        for last in (8, 9):
            run("ip", "address", "add", f"10.97.0.{last}/24", "dev", "near0")
        stats = r.start()
        assert stats["stream"]["local"].startswith("10.97.0.8:"), stats["stream"]
        assert stats["datagram"]["local"].startswith("10.97.0.9:"), stats["datagram"]


def test_routes_of_a_peer_in_the_config_leave_by_their_interfaces(world):
    with Roaming(world, f"?datagram=10.97.1.2:{PORT}&stream-bind=near0&datagram-bind=near1") as r:
        nft("add rule inet hurt out oifname near0 tcp dport 7420 counter; "
            "add rule inet hurt out oifname near1 udp dport 7420 counter; "
            "add rule inet hurt out oifname near0 udp dport 7420 drop; "
            "add rule inet hurt out oifname near1 tcp dport 7420 drop")
        config = world.write("near.conf", f"[peer \"far\"]\nkey = {r.relay.node}\nuri = {r.uri}\n")
        node = world.relay("-c", config, data="near")
        node.err.wait_for("route=datagram verdict=up")
        counts = re.findall(r"counter packets (\d+)", run("nft", "list", "table", "inet", "hurt"))
        assert all(int(count) > 0 for count in counts), counts


def test_address_of_a_route_that_vanishes_is_left_at_once(world):
    with Roaming(world) as r:
        run("ip", "address", "add", "10.97.0.77/24", "dev", "near0")
        run("ip", "route", "change", "10.97.0.0/24", "dev", "near0", "src", "10.97.0.77")
        stats = r.start()
        assert stats["stream"]["local"].startswith("10.97.0.77:"), stats["stream"]
        run("ip", "address", "del", "10.97.0.77/24", "dev", "near0")
        run("ip", "route", "replace", "10.97.0.0/24", "dev", "near0", "src", "10.97.0.1")
        stats = r.until(lambda stats: r.verdicts(stats) == ("up", "up") and stats["resumes"] > 0)
        assert stats["stream"]["local"].startswith("10.97.0.1:"), stats["stream"]
        assert "network_changed" in r.redials(), r.redials()


def test_datagram_port_that_is_dead_is_left_for_another(world):
    with Roaming(world) as r:
        before = r.start()
        dead = port(before["datagram"]["local"])
        nft(f"add rule inet hurt out udp sport {dead} drop; add rule inet hurt in udp dport {dead} drop")
        stats = r.until(lambda stats: port(stats["datagram"]["local"]) != dead and r.verdicts(stats) == ("up", "up"))
        assert stats["datagram"]["downs"] > 0, stats
        assert stats["stream"]["local"] == before["stream"]["local"], "the other route was touched"


def test_stream_with_a_one_way_hole_is_dialled_again(world):
    for way, match in (("out", "sport"), ("in", "dport")):
        with Roaming(world) as r:
            before = r.start()
            dead = port(before["stream"]["local"])
            nft(f"add rule inet hurt {way} tcp {match} {dead} drop")
            stats = r.until(lambda stats: stats["resumes"] > 0 and r.verdicts(stats) == ("up", "up"))
            assert port(stats["stream"]["local"]) != dead, stats


def test_datagrams_with_a_one_way_hole_get_another_port(world):
    for way, match in (("out", "sport"), ("in", "dport")):
        with Roaming(world) as r:
            before = r.start()
            dead = port(before["datagram"]["local"])
            nft(f"add rule inet hurt {way} udp {match} {dead} drop")
            stats = r.until(lambda stats: port(stats["datagram"]["local"]) != dead and r.verdicts(stats) == ("up", "up"))
            assert stats["stream"]["local"] == before["stream"]["local"], "the other route was touched"


def test_addresses_that_drop_everything_are_passed_over(world):
    hosts = world.write("hosts", "10.97.1.2 far.example\n10.97.0.2 far.example\n")
    run("mount", "--bind", hosts, "/etc/hosts")
    try:
        with Roaming(world, host="far.example") as r:
            nft("add rule inet hurt out ip daddr 10.97.1.2 tcp dport 7420 drop; "
                "add rule inet hurt out ip daddr 10.97.0.2 udp dport 7420 drop")
            stats = r.start()
            assert stats["stream"]["remote"] == f"10.97.0.2:{PORT}", stats["stream"]
            assert stats["datagram"]["remote"] == f"10.97.1.2:{PORT}", stats["datagram"]
    finally:
        run("umount", "/etc/hosts")


def test_path_that_flaps_costs_less_than_one_dial_a_second(world):
    with Roaming(world) as r, lib.forwarder_module.Forwarder(f"127.0.0.1:{PORT}") as forwarder:
        relay = world.relay("--accept", "any", listen=f"127.0.0.1:{PORT}", data="here")
        r.uri = relay.uri_via(forwarder)
        before, began = r.start()["dials"], time.monotonic()
        for _ in range(FLAPS):
            forwarder.command("stream cut")
            time.sleep(0.25)  # the shape of the fault
            forwarder.command("stream heal")
            time.sleep(0.25)
        dials, elapsed = r.stats()["dials"] - before, time.monotonic() - began
        print(f"        {FLAPS} flaps in {elapsed:.1f} s: {dials} dials")
        assert dials <= elapsed + BURST, f"{dials} dials in {elapsed:.1f} s"
        assert dials > 1, "it was given up"
        r.until(lambda stats: r.verdicts(stats) == ("up", "up"))


def enter_namespace():
    """Starts this script again in namespaces of its own; skips aloud when there can be none."""
    for tool in ("unshare", "nsenter", "ip", "nft"):
        if not shutil.which(tool):
            print(f"skipped test_roaming: {tool} is not installed\n0 passed, 0 failed, 1 skipped")
            sys.exit(77)
    probe = ("ip link set lo up && nft add table inet probe && "
             "ip link add probe0 type veth peer name probe1 && mount --bind /etc/hosts /etc/hosts")
    tried = subprocess.run(["unshare", "-n", "-m", "sh", "-c", probe], check=False, capture_output=True, text=True)
    if os.geteuid() != 0 or tried.returncode != 0:
        reason = "needs root" if os.geteuid() != 0 else " ".join(tried.stderr.split())
        print(f"skipped test_roaming: {reason}\n0 passed, 0 failed, 1 skipped")
        sys.exit(77)
    os.environ[INSIDE] = "1"
    os.execvp("unshare", ["unshare", "-n", "-m", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", sys.executable,
                          os.path.abspath(__file__), *sys.argv[1:]])


if INSIDE not in os.environ:
    os.environ["PATH"] = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    enter_namespace()
lib.main(globals())
