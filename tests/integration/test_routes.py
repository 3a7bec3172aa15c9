"""What the program tells of its routes (P10): which copy won, what was lost, how often one rescued the other."""
import json
import re
import signal
import subprocess

import lib
from lib import INTERRUPTED, OK, TIMEOUT, UNREACHABLE

URI = f"twofold://{'a' * 52}@127.0.0.1:1"


def table(err):
    """The rows of --stats: name -> (stream's cell, datagram's cell)."""
    return {line[:22].strip(): tuple(re.split(r"  +", line[22:].strip())) for line in err.splitlines()
            if re.match(r".{22} +\S.*  +\S", line)}


def test_stats_tell_what_each_route_did(world):
    relay = world.relay()
    _, err = world.pub(relay.uri, "c", "--count", "500", "--stats").ends(OK)
    rows = table(err)
    assert rows["route"] == ("stream", "datagram") and all(cell.startswith("up for ") for cell in rows["verdict"]), err
    assert rows["address"] == (relay.address, relay.address), err
    assert sum(int(cell) for cell in rows["there first"]) > 0, err
    assert sum(int(cell) for cell in rows["copies sent"]) >= 500, err
    assert "sends: 500, acked: 500 (0 duplicates), refused: 0, sent again: 0\n" in err, err
    assert "sessions: 1, resumed 0 times; dials: 1, handshakes: 1\n" in err and "0 forged, 0 replayed" in err, err
    out, err = world.sub(relay.uri, "c", "--from", "first", "-n", "500", "--stats").ends(OK)
    assert out.count(b"\n") == 500 and "messages: 500, gaps: 0, repeats (dropped): 0\n" in err, err
    assert sum(int(cell) for cell in table(err)["first"]) > 0, err
    _, err = world.pub(URI, "c", "m", "--connect-timeout", "100ms", "--stats").ends(UNREACHABLE)
    assert table(err)["verdict"] == ("no session", "no session"), err


def stats_of(program, status=OK):
    """The object that --stats --json writes to stderr at the end."""
    _, err = program.ends(status)
    stats = json.loads(next(line for line in reversed(err.splitlines()) if line.startswith("{")))
    assert stats["v"] == 1 and stats["type"] == "stats", stats
    return stats, {route["route"]: route for route in stats["routes"]}


def test_stats_as_json_stand_on_stderr(world):
    relay = world.relay()
    pub = world.pub(relay.uri, "c", "--count", "100", "--stats", "--json")
    stats, routes = stats_of(pub)
    assert len(pub.out.data.splitlines()) == 100, "the statistics are no data"
    assert stats["command"] == "pub" and stats["acks"] == stats["sends"] == 100 and stats["span_us"] > 0, stats
    assert set(routes) == {"stream", "datagram"} and stats["keys"]["opened"] > 0, stats
    for route in routes.values():
        assert route["agreed"] and route["carries"] and route["verdict"] == "up", route
        assert sum(each["copies"] for each in route["late"]) <= route["second"], route
    stats, routes = stats_of(world.pub(relay.uri, "c", "m", "--routes", "stream", "--stats", "--json"))
    assert not routes["datagram"]["agreed"] and routes["datagram"]["sent"] == 0, routes
    assert "age_us" not in stats["keys"], stats


def test_stats_come_at_every_end_and_when_asked_for(world):
    relay = world.relay()
    stats, _ = stats_of(world.sub(relay.uri, "c", "-W", "0.3", "--stats", "--json"), TIMEOUT)
    assert stats["command"] == "sub" and stats["activities"] == 0, stats
    sub = world.sub(relay.uri, "c", "--from", "first", "--stats")
    world.pub(relay.uri, "c", "m").succeeds()
    sub.out.wait_lines(1)
    sub.signal(signal.SIGUSR1)
    sub.err.wait_for("messages: 1, gaps: 0")
    sub.signal(signal.SIGINT)
    _, err = sub.ends(INTERRUPTED)
    assert err.count("messages: 1, gaps: 0") == 2 and err.count("datagram keys: ") == 2, err


def test_stats_tell_which_route_rescued_the_other(world):
    relay = world.relay()
    forwarder = world.forwarder(relay, "--udp-drop", "50")
    world.pub(relay.uri, "c", "--count", "2000").succeeds()
    sub = world.sub(relay.uri_via(forwarder), "c", "--from", "first", "-n", "2200", "--stats", "--json")
    world.pub(relay.uri, "c", "--count", "200", "--rate", "200").succeeds()
    _, routes = stats_of(sub)
    assert forwarder.stats()["datagram_down_dropped"] > 0, forwarder.stats()
    assert routes["stream"]["only"] > 0 and routes["stream"]["only"] > routes["datagram"]["only"], routes
    assert routes["stream"]["first"] + routes["datagram"]["first"] >= 2200, routes


def test_stats_are_of_all_sessions(world):
    relay = world.relay()
    forwarder = world.forwarder(relay)
    pub = world.pub(relay.uri_via(forwarder), "c", "-v", "--stats", "--json", stdin=subprocess.PIPE)
    for part in range(2):
        pub.process.stdin.write(b"m\n" * 50)
        pub.process.stdin.flush()
        pub.out.wait_lines(50 * (part + 1))
        if part == 0:
            relay.kill()
            relay = world.relay(listen=relay.address)
            pub.err.wait_for("event=session_started", 2)
    pub.process.stdin.close()
    stats, routes = stats_of(pub)
    assert stats["sessions"] == stats["handshakes"] == 2 and stats["dials"] >= 2 and stats["acks"] == 100, stats
    assert routes["stream"]["sent"] + routes["datagram"]["sent"] >= 100 and stats["messages_sent"] >= 100, stats


lib.main(globals())
