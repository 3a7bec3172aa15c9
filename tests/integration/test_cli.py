"""The command line: what each command says and returns, rightly and wrongly used. First what needs no relay."""
import base64
import hashlib
import json
import os
import pty
import re
import signal
import socket
import stat
import subprocess

import lib
from lib import BAD_CONFIG, INTERRUPTED, NEGATIVE, OK, REFUSED, TIMEOUT, UNREACHABLE, USAGE, check_rows

ID = "a" * 52
URI = f"twofold://{ID}@127.0.0.1:1"
RESERVED = "status top doctor bench check reload drain peer acl events trace completion".split()


def test_commands_that_are_none(world):
    rows = [([], USAGE, "a command is needed", "pub", "relay", "twofold help"),
            (["nonsense"], USAGE, "no command 'nonsense'", "twofold help"),
            ([""], USAGE, "no command ''"),
            (["-x"], USAGE, "'-x'"),
            (["help", "nonsense"], USAGE, "no command 'nonsense'"),
            (["help", "pub", "sub"], USAGE, "'sub'"),
            (["version", "extra"], USAGE, "takes no arguments"),
            (["keygen", "extra"], USAGE, "'extra'", "-o"),
            (["pubkey", "one", "two"], USAGE, "'two'")]
    rows += [([name], USAGE, f"'{name}' is not in this version", "twofold help") for name in RESERVED]
    check_rows(world, rows)


def test_help_and_version(world):
    overview = world.twofold("help").succeeds().decode()
    for command in ("relay", "pub", "sub", "cat", "channel", "ping", "serve", "call", "ref", "backup", "restore", "store", "keygen",
                    "pubkey", "version", "help"):
        assert re.search(rf"^  {command} ", overview, re.M), f"{command} is not in help"
        text = world.twofold("help", command).succeeds().decode()
        assert text.startswith(f"twofold {command}"), text
        assert world.twofold(command, "--help").succeeds().decode() == text
    assert "--accept" in world.twofold("help", "relay").succeeds().decode()
    assert "--id-from" in world.twofold("help", "pub").succeeds().decode()
    assert "--verify" in world.twofold("help", "sub").succeeds().decode()
    for each in ("--help", "-h"):
        assert world.twofold(each).succeeds().decode() == overview
    assert re.fullmatch(r"twofold \d+\.\d+\.\d+\n", world.twofold("version").succeeds().decode())
    assert world.twofold("--version").succeeds() == world.twofold("version").succeeds()


def test_wrong_uris(world):
    rows = [(["sub", "nonsense", "c"], USAGE, "twofold help sub", "twofold://NODEID@HOST:PORT")]
    for uri, *words in [("", "twofold://"), ("nonsense", "twofold://NODEID@HOST:PORT"),
                        ("http://" + ID + "@h:1", "twofold://"), ("twofold://h:1", "node id"),
                        ("twofold://@h:1", "node id"), (f"twofold://{ID[1:]}@h:1", "51"),
                        (f"twofold://{ID}a@h:1", "53"), ("twofold://" + "1" * 52 + "@h:1", "a-z and 2-7"),
                        ("twofold://" + "A" * 52 + "@h:1", "a-z and 2-7"),
                        (f"twofold://{ID}@", "HOST:PORT"), (f"twofold://{ID}@host", "port"),
                        (f"twofold://{ID}@:1", "host"), (f"twofold://{ID}@h:", "port"),
                        (f"twofold://{ID}@h:0", "1 to 65535"), (f"twofold://{ID}@h:65536", "65535"),
                        (f"twofold://{ID}@h:1x", "65535"), (f"twofold://{ID}@::1:7420", "brackets"),
                        (f"twofold://{ID}@[::1:7420", "bracket"), (f"twofold://{ID}@300.1.1.1:1", "IPv4"),
                        (URI + "?", ), (URI + "?datagram", "value"), (URI + "?datagram=h", "port"),
                        (URI + "?datagram=h:1&datagram=h:1", "twice"), (URI + "?nonsense=1", "datagram"),
                        (URI + "?stream-bind=", "stream-bind"), (URI + "?datagram-bind=a%20b c",)]:
        rows.append((["pub", uri, "c", "message"], USAGE, "twofold help pub", *words))
    check_rows(world, rows)


def test_wrong_usage_of_pub(world):
    pub = ["pub", URI, "c"]
    check_rows(world, [
        (["pub"], USAGE, "needs a URI and a channel", "twofold://NODEID@HOST:PORT", "twofold help pub"),
        (["pub", URI], USAGE, "needs a URI and a channel"),
        ([*pub, "one", "two"], USAGE, "needs a URI and a channel"),
        (["pub", URI, "", "m"], USAGE, "is not a channel name"),
        (["pub", URI, "sp ace", "m"], USAGE, "'sp ace' is not a channel name", "A-Z a-z 0-9"),
        (["pub", URI, "ü", "m"], USAGE, "is not a channel name"),
        (["pub", URI, "x" * 129, "m"], USAGE, "is not a channel name", "128"),
        ([*pub, "--nonsense"], USAGE, "unknown option --nonsense"),
        ([*pub, "--retry"], USAGE, "did you mean --retry-limit?"),
        ([*pub, "-x"], USAGE, "unknown option -x"),
        ([*pub, "--id"], USAGE, "--id needs a value"),
        ([*pub, "-f"], USAGE, "-f needs a value"),
        ([*pub, "--json=yes"], USAGE, "--json takes no value"),
        ([*pub, "--id-from", "line-number"], USAGE, "'line-number'", "line", "sha256"),
        ([*pub, "--count", "0"], USAGE, "--count", "'0'"),
        ([*pub, "--count", "-1"], USAGE, "--count", "'-1'"),
        ([*pub, "--count", "1x"], USAGE, "--count", "'1x'"),
        ([*pub, "--count", ""], USAGE, "--count"),
        ([*pub, "--count", "99999999999999999999"], USAGE, "--count"),
        ([*pub, "--count", "1", "--size", "many"], USAGE, "--size", "'many'"),
        ([*pub, "--count", "1", "--size", "2MiB"], USAGE, "--size", "bytes"),
        ([*pub, "--size", "10", "m"], USAGE, "--size goes with --count"),
        ([*pub, "--rate", "0"], USAGE, "--rate", "'0'"),
        ([*pub, "--rate", "fast"], USAGE, "--rate", "'fast'"),
        ([*pub, "--rate", "-5"], USAGE, "--rate"),
        ([*pub, "--rate", "nan"], USAGE, "--rate"),
        ([*pub, "--max-in-flight", "0"], USAGE, "--max-in-flight"),
        ([*pub, "--max-in-flight", "8193"], USAGE, "--max-in-flight", "8192"),
        ([*pub, "--retry-limit", "soon"], USAGE, "--retry-limit", "'soon'", "10s"),
        ([*pub, "--connect-timeout", "5x"], USAGE, "--connect-timeout", "'5x'", "10s"),
        ([*pub, "--routes", "all"], USAGE, "--routes", "'all'", "stream", "datagram", "both"),
        ([*pub, "--count", "2", "m"], USAGE, "exclude each other"),
        ([*pub, "-f", "x", "m"], USAGE, "exclude each other"),
        ([*pub, "-f", "x", "--count", "1"], USAGE, "exclude each other"),
        ([*pub, "--count", "2", "--id", "x"], USAGE, "--id names one message"),
        ([*pub, "--id", "b d", "m"], USAGE, "'b d' is not a client id", "A-Z a-z 0-9"),
        ([*pub, "--id", "", "m"], USAGE, "is not a client id"),
        ([*pub, "--id", "x" * 129, "m"], USAGE, "is not a client id"),
        ([*pub, "-f", "/nonexistent"], USAGE, "/nonexistent cannot be read"),
        ([*pub, "-f", "/"], USAGE, "/ cannot be read", "directory"),
        ([*pub, "-i", "/dev/null/key", "m"], USAGE, "/dev/null"),
        ([*pub, "--expires", "soon", "m"], USAGE, "--expires", "'soon'", "10s"),
        ([*pub, "--meta", "", "m"], USAGE, "--meta", "1024"),
        ([*pub, "--meta", "x" * 1025, "m"], USAGE, "--meta", "1025"),
        ([*pub, "--spool-size", "8MiB", "m"], USAGE, "--spool-size goes with --spool"),
        ([*pub, "--spool", "s", "--spool-size", "1MiB", "m"], USAGE, "--spool-size", "'1MiB'", "4194304"),
        ([*pub, "--spool", "s", "--spool-size", "5GiB", "m"], USAGE, "--spool-size"),
        ([*pub, "--spool", "/dev/null/s", "m"], USAGE, "/dev/null"),
    ])


def test_wrong_usage_of_sub(world):
    sub = ["sub", URI, "c"]
    check_rows(world, [
        (["sub"], USAGE, "needs a URI and a channel", "twofold help sub"),
        (["sub", URI], USAGE, "needs a URI and a channel"),
        ([*sub, "extra"], USAGE, "needs a URI and a channel"),
        ([*sub, *"23456789"], USAGE, "too many arguments"),
        (["sub", URI, "sp ace"], USAGE, "'sp ace' is not a channel name"),
        ([*sub, "--from", "last"], USAGE, "'last'", "new", "first", "seq"),
        ([*sub, "--from", "0"], USAGE, "'0'"),
        ([*sub, "--from", "-1"], USAGE, "'-1'"),
        ([*sub, "--from", "1x"], USAGE, "'1x'"),
        ([*sub, "--from", ""], USAGE, "--from"),
        ([*sub, "--from", "99999999999999999999"], USAGE, "--from"),
        ([*sub, "--from"], USAGE, "--from needs a value"),
        ([*sub, "-n", "0"], USAGE, "-n", "'0'"),
        ([*sub, "-nmany"], USAGE, "-n", "'many'"),
        ([*sub, "-W", "0"], USAGE, "-W", "'0'"),
        ([*sub, "-W", "long"], USAGE, "-W", "'long'", "seconds"),
        ([*sub, "-W", "nan"], USAGE, "-W"),
        ([*sub, "--verbos"], USAGE, "did you mean --verbose?"),
        ([*sub, "--raw=1"], USAGE, "--raw takes no value"),
        ([*sub, "--routes", ""], USAGE, "--routes"),
        ([*sub, "--connect-timeout", "0s"], USAGE, "--connect-timeout"),
        ([*sub, "-i", "/dev/null/key"], USAGE, "/dev/null"),
        ([*sub, "--durable", "a b"], USAGE, "--durable: 'a b' is not a name", "A-Z a-z 0-9"),
        ([*sub, "--durable", "x" * 65], USAGE, "--durable", "64"),
        ([*sub, "--durable", ""], USAGE, "--durable"),
        ([*sub, "--forget"], USAGE, "--forget goes with --durable"),
    ])


def test_wrong_usage_of_ping(world):
    ping = ["ping", URI]
    check_rows(world, [
        (["ping"], USAGE, "needs a URI", "twofold://NODEID@HOST:PORT", "twofold help ping"),
        ([*ping, "channel"], USAGE, "needs a URI"),
        (["ping", "nonsense"], USAGE, "twofold://NODEID@HOST:PORT"),
        ([*ping, "-n", "-1"], USAGE, "-n", "'-1'"),
        ([*ping, "-n", "many"], USAGE, "-n", "'many'"),
        ([*ping, "--interval", "often"], USAGE, "--interval", "'often'"),
        ([*ping, "--interval", "1ms"], USAGE, "--interval", "10ms"),
        ([*ping, "-W", "0"], USAGE, "-W", "'0'"),
        ([*ping, "--routes", "all"], USAGE, "--routes", "'all'"),
        ([*ping, "--stats"], USAGE, "unknown option --stats"),
        ([*ping, "-i", "/dev/null/key"], USAGE, "/dev/null"),
    ])


def test_wrong_usage_of_relay(world):
    taken = socket.create_server(("127.0.0.1", 0))
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))
    file = world.write("file", "no folder")
    data = [["--data", world.path(f"data{number}")] for number in range(3)]  # the rows run at the same time
    check_rows(world, [
        (["relay", "extra"], USAGE, "'extra'", "-c"),
        (["relay", "--nonsense"], USAGE, "unknown option --nonsense", "twofold help relay"),
        (["relay", "--accept", "all"], USAGE, "'all'", "pinned", "any"),
        (["relay", "--allow", "bob"], USAGE, "'bob' is not a node id", "52"),
        (["relay", "--max-in-flight", "0"], USAGE, "--max-in-flight"),
        (["relay", "--max-in-flight", "100000"], USAGE, "--max-in-flight", "8192"),
        (["relay", "--listen", "nowhere"], USAGE, "--listen", "port"),
        (["relay", "--listen", "127.0.0.1:70000"], USAGE, "--listen", "65535"),
        (["relay", "--listen", "::1:7420"], USAGE, "--listen", "brackets"),
        (["relay", "--listen"], USAGE, "--listen needs a value"),
        (["relay", *data[0], "--listen", f"127.0.0.1:{taken.getsockname()[1]}"], NEGATIVE, "port is taken"),
        (["relay", *data[1], "--listen", f"127.0.0.1:{udp.getsockname()[1]}"], NEGATIVE, "port is taken"),
        (["relay", *data[2], "--listen", "192.0.2.1:0"], NEGATIVE, "192.0.2.1"),
        (["relay", "--data", file], NEGATIVE, file),
        (["relay", "--data", "/dev/null/data"], NEGATIVE, "/dev/null"),
        (["relay", "-c", "/nonexistent"], BAD_CONFIG, "/nonexistent"),
        (["relay", "-c", "/"], BAD_CONFIG, "/"),
    ])


def test_bad_config_tells_every_error_with_its_line(world):
    config = world.write("bad.ini", "\n".join([
        "[node]",                         # 1
        "acept = any",                    # 2: unknown key, accept is near
        "accept = all",                   # 3: no such value
        "[limits]",                       # 4
        "max_in_flight = many",           # 5
        "session_timeout = 10 parsecs",   # 6
        "window_bytes = 1",               # 7: below what is possible
        "[listen]",                       # 8
        "address = nowhere",              # 9
        '[peer "bob"]',                   # 10
        "key = short",                    # 11
        "[nonsense]",                     # 12
        "x = 1",                          # 13
        "[log]",                          # 14
        "level = loud",                   # 15
    ]) + "\n")
    out, err = world.twofold("relay", "-c", config, "--data", world.path("data")).ends(BAD_CONFIG)
    assert out == b""
    for line, words in {2: ["acept", "accept"], 3: ["all", "pinned"], 5: ["many"], 6: ["parsecs"], 9: ["nowhere"],
                        11: ["short"], 15: ["loud"]}.items():
        told = [each for each in err.splitlines() if f"bad.ini:{line}:" in each]
        assert told and all(word in told[0] for word in words), f"line {line}: {told} of {err}"
    assert "nonsense" in err, err
    assert not os.path.exists(world.path("data")), "a bad config was half applied"


def test_config_file_says_what_flags_say(world):
    config = world.write("good.ini", f"""
[node]
data = {world.path("data")}
[listen]
address = 127.0.0.1:0
[peer "alice"]
key = {world.id("alice")}
[limits]
max_in_flight = 7
[log]
format = json
""")
    relay = lib.Relay([lib.TWOFOLD, "relay", "-c", config, "--print-uri"], world.env)
    world.programs.append(relay)
    world.pub(relay.uri, "c", "hello", key="alice").succeeds()
    world.pub(relay.uri, "c", "hello", key="bob").ends(REFUSED)
    relay.signal(signal.SIGTERM)
    relay.ends(OK)
    events = [json.loads(line) for line in relay.err.text().splitlines()]
    assert "listening" in [each["event"] for each in events], events
    assert stat.S_IMODE(os.stat(world.path("data/key")).st_mode) == 0o600


def test_reload_applies_a_good_config_and_keeps_the_old_one_before_a_bad_one(world):
    def config(*names, more=""):
        peers = "".join(f'[peer "{name}"]\nkey = {world.id(name)}\n' for name in names)
        return world.write("relay.ini", f"[listen]\naddress = 127.0.0.1:0\n{peers}{more}")

    command = [lib.TWOFOLD, "relay", "-c", config("alice"), "--data", world.path("data"), "--print-uri"]
    relay = lib.Relay(command, world.env)
    world.programs.append(relay)
    world.pub(relay.uri, "c", "hello", key="bob").ends(REFUSED)
    config("alice", "bob")
    relay.signal(signal.SIGHUP)
    relay.err.wait_for("event=reloaded")
    world.pub(relay.uri, "c", "hello", key="bob").succeeds()
    config("alice", more="[limits]\nnonsense = 1\n")
    relay.signal(signal.SIGHUP)
    relay.err.wait_for("event=reload_failed")
    assert "relay.ini:" in relay.err.text()
    world.pub(relay.uri, "c", "hello", key="bob").succeeds()


def test_keygen_and_pubkey(world):
    secret = world.twofold("keygen").succeeds()
    assert re.fullmatch(rb"\S+\n", secret), "not one line"
    assert world.twofold("keygen").succeeds() != secret
    node_id = world.twofold("pubkey", stdin=secret).succeeds()
    assert re.fullmatch(rb"[a-z2-7]{52}\n", node_id), node_id
    path = world.path("folder/key")
    assert world.twofold("keygen", "-o", path).succeeds() == b""
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    with open(path, "rb") as file:
        kept = file.read()
    assert world.twofold("pubkey", path).succeeds() == world.twofold("pubkey", stdin=kept).succeeds()
    open_key = world.write("open.key", secret)
    os.chmod(open_key, 0o644)
    garbage = world.write("garbage", b"\0garbage\n" * 100)
    os.chmod(garbage, 0o600)
    empty = world.write("empty", b"")
    os.chmod(empty, 0o600)
    check_rows(world, [
        (["keygen", "-o", path], USAGE, path),
        (["keygen", "-o", "/dev/null/key"], USAGE, "/dev/null"),
        (["keygen", "-o"], USAGE, "-o needs a value"),
        (["pubkey", garbage], USAGE, garbage),
        (["pubkey", empty], USAGE, empty),
        (["pubkey", world.path("missing")], USAGE, world.path("missing")),
        (["pubkey", open_key], USAGE, open_key),
        (["pubkey", world.folder], USAGE, world.folder),
        (["pubkey"], USAGE, "stdin", "keygen"),
    ])
    with open(path, "rb") as file:
        assert file.read() == kept, "keygen -o has changed a file"
    for text in (b"garbage", secret[:-5], secret.strip() + b"x\n", secret * 2, b"x" * 1000):
        world.twofold("pubkey", stdin=text).ends(USAGE)
    assert world.twofold("pubkey", stdin=secret.strip()).succeeds() == node_id


def test_an_identity_is_made_on_first_use(world):
    relay = world.relay("--accept", "any", allow=())
    env = {"XDG_CONFIG_HOME": world.path("config")}
    world.twofold("pub", relay.uri, "c", "one", env=env).succeeds()
    key = world.path("config/twofold/key")
    assert stat.S_IMODE(os.stat(key).st_mode) == 0o600
    node_id = world.twofold("pubkey", key).succeeds().decode().strip()
    world.twofold("pub", relay.uri, "c", "two", env=env).succeeds()
    world.twofold("pub", relay.uri, "c", "three").succeeds()  # without XDG_CONFIG_HOME: below $HOME
    other = world.twofold("pubkey", world.path(".config/twofold/key")).succeeds().decode().strip()
    lines = world.sub(relay.uri, "c", "--json", "--from", "first", "-n", "3").succeeds().splitlines()
    assert [json.loads(line)["sender"] for line in lines] == [node_id, node_id, other]
    _, err = world.twofold("pub", relay.uri, "c", "m", "-i", world.path("relay/key")).ends(USAGE)
    assert "our own identity" in err, err


def test_unreachable_ends_with_3_within_the_connect_timeout(world):
    silent = socket.create_server(("127.0.0.1", 0))
    quick = ("--connect-timeout", "700ms")
    for address in ("127.0.0.1:1", "127.0.0.1:%d" % silent.getsockname()[1], "name.invalid:7420"):
        for command in ("pub", "sub"):
            client = getattr(world, command)(f"twofold://{ID}@{address}", "c", *quick,
                                             *(["m"] if command == "pub" else []))
            out, err = client.ends(UNREACHABLE)
            assert out == b"" and address in err and err.count("\n") == 1, (out, err)


def test_json_lines_of_acks_and_activities(world):
    relay = world.relay()
    acks = []
    for routes in ("stream", "datagram", "both"):
        lines = world.pub(relay.uri, "a/b", "--json", "--routes", routes, stdin=b"one\ntwo\n").succeeds().splitlines()
        assert len(lines) == 2, lines
        for ack in map(json.loads, lines):
            assert list(ack) == ["v", "client_id", "id", "seq", "timestamp", "duplicate", "via"], ack
            assert ack["v"] == 1 and ack["duplicate"] is False and isinstance(ack["timestamp"], int), ack
            assert ack["via"] in (["stream", "datagram"] if routes == "both" else [routes]), (routes, ack)
            acks.append(ack)
    assert [ack["seq"] for ack in acks] == [1, 2, 3, 4, 5, 6]
    assert len({ack["id"] for ack in acks}) == len({ack["client_id"] for ack in acks}) == 6
    lines = world.sub(relay.uri, "a/b", "--json", "--from", "first", "-n", "6").succeeds().splitlines()
    for ack, activity in zip(acks, map(json.loads, lines), strict=True):
        assert list(activity) == ["v", "channel", "seq", "id", "sender", "client_id", "timestamp", "body"], activity
        assert activity["channel"] == "a/b" and activity["sender"] == world.id("pub"), activity
        for field in ("seq", "id", "client_id", "timestamp"):
            assert activity[field] == ack[field], (ack, activity)
    assert [json.loads(line)["body"] for line in lines] == ["one", "two"] * 3


def test_bodies_of_all_kinds(world):
    relay = world.relay()
    bodies = [b"", b"plain", b'"quoted" \\ and /', b"tab\there", "ümläut €uro 𝄞".encode(), b"\x01esc\x1b[31m",
              b"\xff\xfe",
              b"x" * 100000, b"two\nlines"]
    world.pub(relay.uri, "c", "-0", stdin=b"\0".join(bodies) + b"\0").succeeds()
    options = ("--from", "first", "-n", str(len(bodies)))
    lines = world.sub(relay.uri, "c", "--json", *options).succeeds().splitlines()
    for body, activity in zip(bodies, map(json.loads, lines), strict=True):
        if "body" in activity:
            assert activity["body"].encode() == body, activity
        else:
            assert base64.b64decode(activity["body_base64"], validate=True) == body == b"\xff\xfe", activity
    assert world.sub(relay.uri, "c", *options).succeeds() == b"".join(body + b"\n" for body in bodies)
    assert world.sub(relay.uri, "c", "--raw", *options).succeeds() == b"".join(body + b"\n" for body in bodies)


def on_a_terminal(world, *arguments):
    """What sub writes to a terminal."""
    ours, theirs = pty.openpty()
    sub = world.sub(*arguments, stdout=theirs)
    os.close(theirs)
    data = b""
    try:
        while part := os.read(ours, 4096):
            data += part
    except OSError:
        pass
    os.close(ours)
    sub.ends(OK)
    return data.replace(b"\r\n", b"\n")


def test_control_bytes_are_escaped_on_a_terminal_only(world):
    text = b"\x1b[31mred\x07\n\xc2\x9bx\n\xff \x9b\n"
    relay = world.relay()
    world.pub(relay.uri, "c", stdin=text).succeeds()
    options = (relay.uri, "c", "--from", "first", "-n", "3")
    shown = on_a_terminal(world, *options)
    assert shown == b"\\x1b[31mred\\x07\n\\xc2\\x9bx\n\\xff \\x9b\n", shown
    assert on_a_terminal(world, *options, "--raw") == text
    assert world.sub(*options).succeeds() == text


def test_client_ids_make_sends_happen_once(world):
    relay = world.relay()

    def send(body, *options, key="pub"):
        return json.loads(world.pub(relay.uri, "c", "--json", *options, body, key=key).succeeds())

    first = send("hello", "--id", "x:1")
    assert first["client_id"] == "x:1" and first["duplicate"] is False
    again = send("hello", "--id", "x:1")
    assert again["duplicate"] is True
    assert all(again[field] == first[field] for field in ("id", "seq", "timestamp")), (first, again)
    out, err = world.pub(relay.uri, "c", "--json", "--id", "x:1", "other").ends(REFUSED)
    refusal = json.loads(out)
    assert refusal["v"] == 1 and refusal["client_id"] == "x:1" and refusal["code"] == "client_id_conflict", refusal
    assert refusal["retryable"] is False and refusal["message"] and "retry_after_ms" not in refusal, refusal
    assert "x:1" in err and "client_id_conflict" in err, err
    other = send("other", "--id", "x:1", key="sub")
    assert other["duplicate"] is False and other["seq"] == 2, "the id of another sender is another id"
    assert world.sub(relay.uri, "c", "--from", "first", "-n", "2", key="pub").succeeds() == b"hello\nother\n"


def test_ids_from_lines_and_hashes(world):
    relay = world.relay()
    acks = world.pub(relay.uri, "c", "--json", "--id-from", "line", stdin=b"a\nb\na\n").succeeds().splitlines()
    acks = [json.loads(ack) for ack in acks]
    assert sorted((ack["client_id"], ack["seq"], ack["duplicate"]) for ack in acks) == \
        [("a", 1, False), ("a", 1, True), ("b", 2, False)], acks
    for line in (b"sp ace", b"", b"x" * 129, "ü".encode()):
        _, err = world.pub(relay.uri, "c", "--id-from", "line", stdin=b"a\n" + line + b"\n").ends(USAGE)
        assert f"'{line.decode()[:20]}" in err and "is not a client id" in err, err
    (ack,) = world.pub(relay.uri, "c", "--json", "--id-from", "sha256", stdin=b"sp ace\n").succeeds().splitlines()
    assert json.loads(ack)["client_id"] == hashlib.sha256(b"sp ace").hexdigest()
    _, err = world.pub(relay.uri, "c", "--id", "only", stdin=b"one\ntwo\n").ends(USAGE)
    assert "--id names one message" in err, err


def test_ways_to_give_messages(world):
    relay = world.relay()
    file = world.write("file", b"from\nfile")
    pipe = world.pub(relay.uri, "c", stdin=subprocess.PIPE)
    pipe.process.stdin.write(b"from\npi")
    pipe.process.stdin.flush()
    check = world.sub(relay.uri, "c", "--from", "first", "-n", "1")
    assert check.succeeds() == b"from\n", "pub waits for more before it sends what is there"
    pipe.process.stdin.write(b"pe\n")
    pipe.process.stdin.close()
    pipe.succeeds()
    world.pub(relay.uri, "c", "-f", file).succeeds()
    world.pub(relay.uri, "c", "--", "--dashes").succeeds()
    world.pub(relay.uri, "c", "").succeeds()
    world.pub(relay.uri, "c", stdin=b"").succeeds()
    world.pub(relay.uri, "c", stdin=subprocess.DEVNULL).succeeds()
    world.pub(relay.uri, "c", "--count", "2").succeeds()
    world.pub(relay.uri, "c", "--count=2", "--size=5").succeeds()
    expected = b"from\npipe\nfrom\nfile\n--dashes\n\n1\n2\n1....\n2....\n"
    assert world.sub(relay.uri, "c", "--from", "first", "-n", "10").succeeds() == expected
    _, err = world.pub(relay.uri, "c", stdin=b"x" * (1 << 20) + b"\n").ends(REFUSED)
    assert "longer than" in err, err


def test_rate_is_a_most_and_windows_of_all_sizes_work(world):
    relay = world.relay("--max-in-flight", "3")
    started = lib.time.monotonic()
    world.pub(relay.uri, "c", "--count", "30", "--rate", "100").succeeds()
    assert lib.time.monotonic() - started >= 0.29, "faster than --rate allows"
    for window in ("1", "2", "3", "8192"):
        world.pub(relay.uri, "c", "--count", "200", "--max-in-flight", window).succeeds()
    lines = world.sub(relay.uri, "c", "--from", "first", "--verify", "-n", "830").succeeds().split()
    assert lines == [b"%d" % number for count in (30, 200, 200, 200, 200) for number in range(1, count + 1)]


def test_retry_limit_gives_up_and_names_the_client_id(world):
    config = world.write("full.ini", "[store]\nkind = memory\n[limits]\nstore_bytes = 1MiB\n")
    relay = world.relay("-c", config)
    body = world.write("body", b"x" * 600000 + b"\n")
    world.pub(relay.uri, "c", "-f", body).succeeds()
    out, err = world.pub(relay.uri, "c", "--json", "--id", "too-much", "--retry-limit", "300ms",
                         "-f", body).ends(NEGATIVE)
    assert "too-much" in err and "retry limit" in err, err
    refusal = json.loads(out.splitlines()[-1])
    assert refusal["client_id"] == "too-much" and refusal["retryable"] is True, refusal
    assert refusal["code"] == "store_full" and "store_full" in err, (refusal, err)
    assert world.sub(relay.uri, "c", "--from", "first", "-n", "1").succeeds() == b"x" * 600000 + b"\n"


def test_sub_positions_and_ends(world):
    relay = world.relay()
    world.pub(relay.uri, "c", stdin=b"1\n2\n3\n4\n5\n").succeeds()
    assert world.sub(relay.uri, "c", "--from", "first", "-n", "2").succeeds() == b"1\n2\n"
    assert world.sub(relay.uri, "c", "--from", "4", "-n", "2").succeeds() == b"4\n5\n"
    out, err = world.sub(relay.uri, "c", "--from", "2", "-W", "0.5").ends(TIMEOUT)
    assert out == b"2\n3\n4\n5\n" and err == "", (out, err)
    out, err = world.sub(relay.uri, "empty", "-W", "0.2").ends(TIMEOUT)
    assert out == b"" and err == "", (out, err)
    new = world.sub(relay.uri, "c", "-n", "1")
    number = 0
    while new.is_running():  # until one is sent that is new to it
        world.pub(relay.uri, "c", f"new {number}").succeeds()
        number += 1
    assert new.succeeds().startswith(b"new "), bytes(new.out.data)


def test_verbose_says_what_happens_and_nothing_else_does(world):
    relay = world.relay()
    _, err = world.pub(relay.uri, "c", "m", "-v").ends(OK)
    assert "event=session_started" in err and "event=stream_up" in err, err


def test_signals_end_clients_with_130(world):
    relay = world.relay()
    for number in (signal.SIGINT, signal.SIGTERM):
        sub = world.sub(relay.uri, f"c{number}", "--from", "first")
        pub = world.pub(relay.uri, f"c{number}", stdin=subprocess.PIPE)
        pub.process.stdin.write(b"m\n")
        pub.process.stdin.flush()
        sub.out.wait_lines(1)
        pub.signal(number)
        pub.ends(INTERRUPTED)
        sub.signal(number)
        out, err = sub.ends(INTERRUPTED)
        assert out == b"m\n" and err == "", (out, err)
    away = world.pub(URI, "c", "m", "--connect-timeout", "1h", "-v")
    away.err.wait_for("event=")
    away.signal(signal.SIGINT)
    away.ends(INTERRUPTED)


def test_term_on_the_relay_drains_and_ends_with_0(world):
    relay = world.relay()
    sub = world.sub(relay.uri, "c", "--from", "first")
    world.pub(relay.uri, "c", "m").succeeds()
    sub.out.wait_lines(1)
    relay.signal(signal.SIGTERM)
    out, err = relay.ends(OK)
    assert out.count(b"\n") == 1 and "event=draining" in err and "event=stopped" in err, err
    assert sub.is_running(), "a subscriber ended with its relay"


def test_nobody_reads_stdout(world):
    relay = world.relay()
    world.pub(relay.uri, "c", "--count", "1000", "--size", "1000").succeeds()

    def into_closed_pipe(command, *arguments):
        reading, writing = os.pipe()
        os.close(reading)
        program = getattr(world, command)(*arguments, stdout=writing)
        os.close(writing)
        return program

    _, err = into_closed_pipe("sub", relay.uri, "c", "--from", "first").ends(OK)
    assert err == "", err
    into_closed_pipe("twofold", "help").succeeds()
    into_closed_pipe("twofold", "version").succeeds()
    with open("/dev/full", "wb") as full:
        for command, *arguments in (["sub", relay.uri, "c", "--from", "first"], ["twofold", "help"],
                                    ["twofold", "keygen"], ["pub", relay.uri, "c", "--json", "m"]):
            _, err = getattr(world, command)(*arguments, stdout=full).ends(NEGATIVE)
            assert "stdout cannot be written" in err, (command, err)


def test_ipv6_and_names(world):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        raise lib.Skip(f"no IPv6 here: {error}") from error
    relay = world.relay(listen="[::1]:0")
    assert "@[::1]:" in relay.uri, relay.uri
    world.pub(relay.uri, "c", "six").succeeds()
    assert world.sub(relay.uri, "c", "--from", "first", "-n", "1").succeeds() == b"six\n"
    four = world.relay(data="four")
    world.pub(four.uri.replace("127.0.0.1", "localhost"), "c", "four").succeeds()
    assert world.sub(four.uri, "c", "--from", "first", "-n", "1").succeeds() == b"four\n"


def test_routes_on_other_addresses(world):
    relay = world.relay()
    forwarder = world.forwarder(relay)
    uri = f"{relay.uri}?datagram=127.0.0.1:{forwarder.port}&stream-bind=127.0.0.2&datagram-bind=127.0.0.3"
    world.pub(uri, "c", "--routes", "datagram", "--count", "20").succeeds()
    stats = forwarder.stats()
    assert stats["datagram_up_packets"] > 0 and stats["stream_accepted"] == 0, stats
    assert re.search(r"event=stream_up .*address=\"?127\.0\.0\.2:", relay.err.text()), relay.err.text()
    elsewhere = world.pub(relay.uri + "?stream-bind=192.0.2.7", "c", "m", "--connect-timeout", "300ms")
    _, err = elsewhere.ends(UNREACHABLE)  # an address that this machine may get later
    assert "annot assign" in err, err
    _, err = world.pub(relay.uri + "?stream-bind=nonsense0", "c", "m").ends(USAGE)
    assert "stream-bind" in err, err


lib.main(globals())
