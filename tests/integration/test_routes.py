"""What the program tells of its routes (P10): which copy won, what was lost, how often one rescued the other."""
import json
import re
import signal
import subprocess

import lib
from lib import DEGRADED, INTERRUPTED, OK, REFUSED, TIMEOUT, UNREACHABLE

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
    forwarder = world.forwarder(relay)
    sub = world.sub(relay.uri_via(forwarder), "c", "--from", "first", "-v", "--stats", "--json")
    sub.err.wait_match(r"event=route peer=\S+ route=datagram verdict=up")
    forwarder.command("udp-drop 50 down")
    world.pub(relay.uri, "c", "--count", "4000").succeeds()
    sub.out.wait_lines(4000)
    sub.signal(signal.SIGINT)
    _, routes = stats_of(sub, INTERRUPTED)
    assert forwarder.stats()["datagram_down_dropped"] > 0, forwarder.stats()
    assert routes["stream"]["only"] > 0, routes
    assert routes["stream"]["first"] + routes["datagram"]["first"] >= 4000, routes


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


# -- ping


def ping(world, uri, *arguments, key="pub"):
    return world.twofold("ping", "-i", world.key(key), uri, *arguments)


def objects_of(program, status=OK):
    """The pings and the summary that --json prints, and what was said on stderr."""
    out, err = program.ends(status)
    objects = [json.loads(line) for line in out.splitlines()]
    assert [each["type"] for each in objects] == ["ping"] * (len(objects) - 1) + ["summary"], objects
    assert all(each["v"] == 1 for each in objects), objects
    return objects[:-1], objects[-1], err


def results_of(one):
    return {route["route"]: route["result"] for route in one["routes"]}


ANSWER = r"\d+(\.\d+)? m?s"
BOTH_ANSWERED = rf"ping \d+: stream {ANSWER}, datagram {ANSWER}"


def test_ping_is_answered_by_both_routes(world):
    relay = world.relay()
    lines = ping(world, relay.uri).succeeds().decode().splitlines()
    won = rf"(; (stream|datagram) won by {ANSWER})?"
    both = [line for line in lines[:5] if re.fullmatch(BOTH_ANSWERED + won, line)]
    for number, line in enumerate(lines[:5], 1):
        late = re.fullmatch(rf"ping {number}: stream ({ANSWER}|no answer), datagram ({ANSWER}|no answer)", line)
        assert line.startswith(f"ping {number}: ") and (line in both or late), line
    assert both, lines
    assert re.fullmatch(rf"5 pings in {ANSWER}", lines[5]), lines
    summary = "\n".join(lines[6:])
    for route in ("stream", "datagram"):
        assert re.search(rf"^{route}: up for {ANSWER}, {relay.address}, round trip ", summary, re.M), summary
    assert len(re.findall(r"^  asked 5, answered [1-5], lost .* %; least .*; won \d", summary, re.M)) == 2, summary
    assert re.search(rf"^datagram keys: {ANSWER} old, phase 0; ", summary, re.M), summary


def test_ping_as_json(world):
    relay = world.relay()
    pings, summary, err = objects_of(ping(world, relay.uri, "-n", "4", "--interval", "10ms", "--json"))
    assert err == "" and [each["number"] for each in pings] == [1, 2, 3, 4], (pings, err)
    both = [each for each in pings if results_of(each) == {"stream": "answered", "datagram": "answered"}]
    assert both, pings
    for each in both:
        times = {route["route"]: route["rtt_us"] for route in each["routes"]}
        if "won" in each:
            assert each["by_us"] == abs(times["stream"] - times["datagram"]), each
            assert times[each["won"]] == min(times.values()), each
        else:
            assert times["stream"] == times["datagram"], each
    assert summary["pings"] == 4 and summary["sessions"] == 1 and len(summary["routes"]) == 2, summary
    for route, count in zip(("stream", "datagram"), summary["answers"], strict=True):
        times = [each["rtt_us"] for one in pings for each in one["routes"] if each["route"] == route and "rtt_us" in each]
        assert count["route"] == route and count["asked"] == 4 and count["answered"] == len(times), count
        mean = sum(times) // len(times)
        assert (count["least_us"], count["mean_us"], count["most_us"]) == (min(times), mean, max(times)), count
        assert count["won"] == sum(each.get("won") == route for each in pings), (count, pings)


def test_ping_by_one_route_asks_that_one_only(world):
    relay = world.relay()
    forwarder = world.forwarder(relay, "--udp-drop", "100")
    for uri, route in ((relay.uri_via(forwarder), "stream"), (relay.uri, "datagram")):
        pings, summary, err = objects_of(ping(world, uri, "--routes", route, "-n", "2", "--json"))
        assert err == "" and {route: "answered"} in [results_of(each) for each in pings], (pings, err)
        assert "won" not in pings[0] and [each["route"] for each in summary["answers"]] == [route], summary
    assert forwarder.stats()["datagram_up_packets"] == 0, forwarder.stats()


def test_ping_with_one_route_only_is_degraded(world):
    relay = world.relay()
    forwarder = world.forwarder(relay, "--udp-drop", "100")
    pings, summary, err = objects_of(ping(world, relay.uri_via(forwarder), "-n", "2", "--json"), DEGRADED)
    for each in pings:
        assert results_of(each)["datagram"] == "not_sent" and "by_us" not in each, each
        assert each.get("won") == ("stream" if results_of(each)["stream"] == "answered" else None), each
    assert summary["routes"][1]["verdict"] == "joining", summary
    assert "degraded: the datagram route is joining for " in err and f"127.0.0.1:{forwarder.port}?" in err, err


def test_datagrams_that_do_not_get_through_are_named(world):
    relay = world.relay()
    forwarder = world.forwarder(relay, "--udp-drop", "100")
    program = ping(world, relay.uri_via(forwarder), "--routes", "datagram", "--connect-timeout", "3s")
    out, err = program.ends(UNREACHABLE)
    assert out == b"" and err == (f"twofold ping: cannot reach 127.0.0.1:{forwarder.port} by datagrams: none was answered; "
                                  "does UDP get through?\n"), (out, err)


def test_ping_shows_routes_that_fail_and_come_back(world):
    relay = world.relay()
    forwarder = world.forwarder(relay)
    program = ping(world, relay.uri_via(forwarder), "-n", "0", "--interval", "20ms")

    def await_after(pattern):
        """Until a line comes that is newer than all that are there now."""
        program.out.wait_match(rf"(?s)^.{{{len(program.out.data)}}}.*\nping \d+: {pattern}")

    await_after(rf"stream {ANSWER}, datagram {ANSWER}")
    forwarder.command("datagram cut")
    await_after(rf"stream {ANSWER}, datagram (no answer|down)")
    forwarder.command("datagram heal")
    await_after(rf"stream {ANSWER}, datagram {ANSWER}")
    forwarder.command("stream stall")
    await_after(rf"stream (no answer|down|not sent|stalled), datagram {ANSWER}")
    forwarder.command("stream flow")
    await_after(rf"stream {ANSWER}, datagram {ANSWER}")
    program.signal(signal.SIGINT)
    out, err = program.ends(INTERRUPTED)
    assert err == "" and re.search(rb"\n\d+ pings in ", out) and b"datagram keys: " in out, (out, err)


def test_ping_goes_on_while_there_is_no_session(world):
    relay = world.relay()
    program = ping(world, relay.uri, "-n", "0", "--interval", "50ms")
    program.out.wait_match(BOTH_ANSWERED)
    relay.kill()
    program.out.wait_match(r"ping \d+: stream (down|no answer), datagram (down|no answer)\n")
    world.relay(listen=relay.address)
    program.out.wait_match(rf"(?s)datagram (down|no answer)\n.*{BOTH_ANSWERED}")
    program.signal(signal.SIGTERM)
    out, _ = program.ends(INTERRUPTED)
    assert b"\nsessions: 2, " in out, out


def test_ping_that_does_not_come_so_far(world):
    relay = world.relay(allow=("sub",))
    out, err = ping(world, relay.uri).ends(REFUSED)
    assert out == b"" and world.id("pub") in err and err.count(relay.address) == 1, (out, err)
    ping(world, relay.uri, key="sub").succeeds()
    out, err = ping(world, URI, "--connect-timeout", "100ms").ends(UNREACHABLE)
    assert out == b"" and err == "twofold ping: cannot reach 127.0.0.1:1: cannot connect: Connection refused\n", (out, err)
    out, err = ping(world, URI, "--connect-timeout", "1h", "-W", "0.2").ends(TIMEOUT)
    assert out == b"" and err == "", (out, err)
    ping(world, relay.uri, "-n", "0", "-W", "0.5", key="sub").ends(TIMEOUT)
    away = ping(world, URI, "--connect-timeout", "1h", "-v")
    away.err.wait_for("event=")
    away.signal(signal.SIGINT)
    out, _ = away.ends(INTERRUPTED)
    assert out == b"", out


lib.main(globals())
