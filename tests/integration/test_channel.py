"""channel and cat: what is stored, and the channels of a relay."""
import json

import lib
from lib import NEGATIVE, OK, REFUSED, USAGE, check_rows

ID = "a" * 52
URI = f"twofold://{ID}@127.0.0.1:1"


def test_wrong_usage_of_channel_and_cat(world):
    one = ["cat", URI, "c"]
    check_rows(world, [
        (["channel"], USAGE, "ls, info, create, close, trim, gaps", "twofold help channel"),
        (["channel", "list", URI], USAGE, "'list'", "ls, info"),
        (["channel", "ls"], USAGE, "ls needs a URI", "twofold://NODEID@HOST:PORT"),
        (["channel", "ls", URI, "c"], USAGE, "ls needs a URI and nothing else"),
        (["channel", "info", URI], USAGE, "info needs a URI and a channel"),
        (["channel", "info", URI, "sp ace"], USAGE, "'sp ace' is not a channel name"),
        (["channel", "trim", URI, "c"], USAGE, "--before"),
        (["channel", "gaps", URI, "c", "--before", "1"], USAGE, "--before"),
        (["channel", "trim", URI, "c", "--before", "0"], USAGE, "--before", "'0'"),
        (["channel", "info", "nonsense", "c"], USAGE, "twofold://NODEID@HOST:PORT"),
        (["cat"], USAGE, "needs a URI and a channel", "twofold help cat"),
        (["cat", URI], USAGE, "needs a URI and a channel"),
        ([*one, "extra"], USAGE, "needs a URI and a channel"),
        ([*one, "--from", "last"], USAGE, "'last'", "first"),
        ([*one, "--from", "0"], USAGE, "'0'"),
        ([*one, "--to", "first"], USAGE, "'first'", "last"),
        ([*one, "--from", "3", "--to", "2"], USAGE, "--from 3 is behind --to 2"),
        ([*one, "-n", "0"], USAGE, "-n", "'0'"),
        ([*one, "--verbos"], USAGE, "did you mean --verbose?"),
    ])


def channel(world, verb, relay, *arguments):
    return world.twofold("channel", verb, "-i", world.key("pub"), relay.uri, *arguments)


def cat(world, relay, *arguments):
    return world.twofold("cat", "-i", world.key("pub"), relay.uri, *arguments)


def objects(output):
    lines = [json.loads(line) for line in output.decode().splitlines()]
    assert all(line["v"] == 1 for line in lines), lines
    return lines


def fill(world, relay, name, count):
    world.pub(relay.uri, name, "--count", str(count)).succeeds()


def test_what_looks_at_a_channel_does_not_make_it(world):
    relay = world.relay()
    for arguments in (["info"], ["gaps"], ["close"], ["trim", "--before", "1"]):
        out, err = channel(world, arguments[0], relay, "missing", *arguments[1:]).ends(REFUSED)
        assert out == b"" and "channel_not_found" in err, (arguments, out, err)
    out, err = cat(world, relay, "missing", "--json").ends(REFUSED)
    assert json.loads(out)["code"] == "channel_not_found" and "channel_not_found" in err, (out, err)
    assert channel(world, "ls", relay, "--json").succeeds() == b""


def test_create_ls_info_close(world):
    relay = world.relay()
    for _ in range(2):  # the second time it is there
        assert channel(world, "create", relay, "a").succeeds() == b""
    [made] = objects(channel(world, "create", relay, "b", "--json").succeeds())
    assert (made["channel"], made["first"], made["head"], made["closed"]) == ("b", 1, 0, False), made
    fill(world, relay, "a", 7)
    listed = objects(channel(world, "ls", relay, "--json").succeeds())
    assert [(line["channel"], line["head"]) for line in listed] == [("a", 7), ("b", 0)], listed
    table = channel(world, "ls", relay).succeeds().decode().splitlines()
    assert table[0].split()[:4] == ["CHANNEL", "FIRST", "HEAD", "BYTES"], table
    assert table[1].split()[:3] == ["a", "1", "7"] and table[2].split()[-1] == "open", table
    [info] = objects(channel(world, "info", relay, "a", "--json").succeeds())
    assert info["epoch"] == listed[0]["epoch"] and info["subscriptions"] == 0 and info["cursors"] == [], info
    assert set(info) >= {"v", "channel", "epoch", "first", "head", "bytes", "timestamp", "closed", "cursor_count"}
    assert b"head           7\n" in channel(world, "info", relay, "a").succeeds()
    assert channel(world, "close", relay, "a").succeeds() == b""
    assert objects(channel(world, "close", relay, "b", "--json").succeeds()) == [
        {"v": 1, "channel": "b", "closed": True}]
    _, err = world.pub(relay.uri, "a", "late").ends(REFUSED)
    assert "channel_closed" in err, err
    assert cat(world, relay, "a", "-n", "1").succeeds() == b"1\n"  # reading goes on


def test_trim_and_gaps_and_what_cat_says_of_them(world):
    relay = world.relay()
    fill(world, relay, "c", 20)
    assert channel(world, "gaps", relay, "c").succeeds() == b""
    assert channel(world, "trim", relay, "c", "--before", "6").succeeds() == b"c is kept from seq 6 on\n"
    [trimmed] = objects(channel(world, "trim", relay, "c", "--before", "2", "--json").succeeds())
    assert trimmed == {"v": 1, "channel": "c", "first": 6}, trimmed  # it never moves back
    [gap] = objects(channel(world, "gaps", relay, "c", "--json").succeeds())
    assert gap == {"v": 1, "channel": "c", "first": 1, "last": 5, "reason": "trimmed"}, gap
    assert channel(world, "gaps", relay, "c").succeeds().split()[-3:] == [b"1", b"5", b"trimmed"]
    rest = b"".join(b"%d\n" % number for number in range(6, 21))
    assert cat(world, relay, "c").succeeds() == rest
    out, err = cat(world, relay, "c", "--from", "4").ends(NEGATIVE)
    assert out == rest and err == "twofold cat: gap: trimmed: seq 4 to 5\n", (out, err)
    assert channel(world, "trim", relay, "c", "--before", "1000").succeeds() == b"c is kept from seq 21 on\n"
    assert cat(world, relay, "c").succeeds() == b""


def test_cat_prints_the_range_that_was_asked_for(world):
    relay = world.relay()
    fill(world, relay, "c", 20)
    for arguments, first, last in (([], 1, 20), (["--from", "first", "--to", "last"], 1, 20), (["--from", "18"], 18, 20),
                                   (["--to", "3"], 1, 3), (["--from", "5", "--to", "5"], 5, 5),
                                   (["--from", "7", "-n", "2"], 7, 8), (["--from", "19", "--to", "99"], 19, 20),
                                   (["--from", "21"], 21, 20)):
        expected = b"".join(b"%d\n" % number for number in range(first, last + 1))
        assert cat(world, relay, "c", *arguments).succeeds() == expected, arguments


def test_cat_reads_more_than_fits_an_answer(world):
    relay = world.relay()
    lines = lib.numbered_lines(5000)
    world.pub(relay.uri, "c", stdin=b"\n".join(lines) + b"\n").succeeds()
    lib.same_lines(cat(world, relay, "c").succeeds(), lines, "cat")
    shown = objects(cat(world, relay, "c", "--json").succeeds())
    assert [line["seq"] for line in shown] == list(range(1, 5001))


def test_json_has_meta_and_expires_when_they_were_sent(world):
    relay = world.relay()
    world.pub(relay.uri, "c", "plain").succeeds()
    world.pub(relay.uri, "c", "both", "--meta", "trace=ü", "--expires", "1h").succeeds()
    world.pub(relay.uri, "c", "bytes", "--meta", b"\xff\x00"[:1]).succeeds()
    plain, both, raw = objects(cat(world, relay, "c", "--json").succeeds())
    assert not {"meta", "meta_base64", "expires"} & set(plain), plain
    assert both["meta"] == "trace=ü" and 3500000 < both["expires"] - both["timestamp"] <= 3600000, both
    assert raw["meta_base64"] == "/w==" and "meta" not in raw, raw
    sub = world.sub(relay.uri, "c", "--from", "first", "-n", "3", "--json")
    assert objects(sub.succeeds()) == [plain, both, raw]


def test_expired_messages_are_skipped_and_told(world):
    relay = world.relay()
    world.pub(relay.uri, "c", "one").succeeds()
    world.pub(relay.uri, "c", "stale", "--expires", "1ms").succeeds()
    world.pub(relay.uri, "c", "two").succeeds()
    assert cat(world, relay, "c").succeeds() == b"one\nstale\ntwo\n"
    sub = world.sub(relay.uri, "c", "--from", "first", "-n", "2", "--verify")
    out, err = sub.ends(OK)
    assert out == b"one\ntwo\n" and err == "twofold sub: skipped: messages have expired: seq 2 to 2\n", (out, err)


lib.main(globals())
