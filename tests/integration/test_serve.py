"""serve and call: objects under a name, answered by commands."""
import base64
import json
import os
import signal

import lib
from lib import INTERRUPTED, OK, REFUSED, TIMEOUT, USAGE, check_rows

URI = f"twofold://{'a' * 52}@127.0.0.1:1"

# The command that tests serve with: what it does is said by the method.
SCRIPT = r"""
case $1 in
    upper) tr a-z A-Z ;;
    cat) cat ;;
    method) printf %s "$1" ;;
    fail) echo "bad thing" >&2; exit 7 ;;
    silent) exit 3 ;;
    die) kill -9 $$ ;;
    endless) yes ;;
    bytes) printf '\377\000\n' ;;
    wait) cat "$(cat)" ;; # what comes by the fifo that is named
    count) echo begin >> "$LOG"; cat; echo end >> "$LOG" ;;
    *) printf 'what is "%s"?' "$1" ;;
esac
"""


def test_wrong_usage_of_serve_and_call(world):
    check_rows(world, [
        (["serve"], USAGE, "needs a URI, a name and a command", "twofold help serve"),
        (["serve", URI, "n"], USAGE, "-- COMMAND"),
        (["serve", URI, "n", "--"], USAGE, "-- COMMAND"),
        (["serve", URI, "n", "more", "--", "cat"], USAGE, "-- COMMAND"),
        (["serve", URI, "sp ace", "--", "cat"], USAGE, "'sp ace' is not a name"),
        (["serve", "--max-running", "0", URI, "n", "--", "cat"], USAGE, "--max-running", "'0'"),
        (["serve", "--max-runing", "1", URI, "n", "--", "cat"], USAGE, "did you mean --max-running?"),
        (["serve", "nonsense", "n", "--", "cat"], USAGE, "twofold://NODEID@HOST:PORT"),
        (["call"], USAGE, "needs a URI, a name and a method", "twofold help call"),
        (["call", URI, "n"], USAGE, "needs a URI, a name and a method"),
        (["call", URI, "n", "m", "body", "more"], USAGE, "needs a URI, a name and a method"),
        (["call", URI, "n", ""], USAGE, "'' is not a method"),
        (["call", URI, "n", "m" * 65], USAGE, "is not a method: 1 to 64 bytes"),
        (["call", URI, "sp ace", "m"], USAGE, "'sp ace' is not a name"),
        (["call", URI, "n", "m", "--timeout", "soon"], USAGE, "--timeout", "'soon'"),
    ])


def serve(world, relay, *options, name="thing", key="sub", command=("sh", "-c", SCRIPT, "sh"), env=None):
    program = world.twofold("serve", "-i", world.key(key), "--ready", *options, relay.uri, name, "--", *command, env=env)
    program.out.wait_for("published")
    return program


def call(world, relay, method, *arguments, name="thing", key="pub", **more):
    return world.twofold("call", "-i", world.key(key), relay.uri, name, method, *arguments, **more)


def rejected(program, *words):
    out, err = program.ends(REFUSED)
    assert out == b"" and all(word in err for word in words), (out, err)


def test_answers_by_each_route(world):
    relay = world.relay()
    for routes in ("both", "stream", "datagram"):
        server = serve(world, relay, "--routes", routes)
        for mine in ("both", "stream", "datagram"):
            options = ("--routes", mine)
            assert call(world, relay, "upper", "hello", *options).succeeds() == b"HELLO"
        server.signal(signal.SIGTERM)
        server.ends(OK)


def test_bodies_and_answers_are_bytes(world):
    relay = world.relay()
    serve(world, relay)
    body = os.urandom(300_000)
    assert call(world, relay, "cat", "-", stdin=body).succeeds() == body
    assert call(world, relay, "cat").succeeds() == b""
    assert call(world, relay, "cat", "-", stdin=b"").succeeds() == b""
    largest = bytes(1048576 - 4096)
    assert call(world, relay, "cat", "-", stdin=largest).succeeds() == largest
    _, err = call(world, relay, "cat", "-", stdin=largest + b"x").ends(USAGE)
    assert "longer than 1044480 bytes" in err, err
    assert call(world, relay, "bytes").succeeds() == b"\xff\x00\n"
    line = json.loads(call(world, relay, "bytes", "--json").succeeds())
    assert base64.b64decode(line.pop("body_base64")) == b"\xff\x00\n"
    assert line == {"v": 1, "name": "thing", "method": "bytes"}, line
    line = json.loads(call(world, relay, "upper", "x\"ü", "--json").succeeds())
    assert line["body"] == "X\"ü", line
    assert call(world, relay, "a b\"c").succeeds() == b'what is "a b"c"?'
    assert call(world, relay, "--", "--help").succeeds() == b'what is "--help"?'


def test_command_that_fails_rejects(world):
    relay = world.relay()
    serve(world, relay)
    rejected(call(world, relay, "fail"), "twofold call: failed: bad thing\n")
    rejected(call(world, relay, "silent"), "failed: the command ended with status 3")
    rejected(call(world, relay, "die"), "failed: the command ended with signal 9")
    rejected(call(world, relay, "endless"), "message_too_large: ")
    out, err = call(world, relay, "fail", "--json").ends(REFUSED)
    assert json.loads(out) == {"v": 1, "name": "thing", "method": "fail", "code": "failed", "message": "bad thing",
                               "status": 7}, out
    assert "failed: bad thing" in err, err


def test_command_that_cannot_be_started_rejects(world):
    relay = world.relay()
    server = serve(world, relay, command=("/nonexistent/command",))
    rejected(call(world, relay, "m"), "failed: /nonexistent/command: No such file or directory")
    server.err.wait_for("cannot start the command: /nonexistent/command: No such file or directory")
    assert server.is_running()


def test_name_that_nobody_has(world):
    relay = world.relay()
    rejected(call(world, relay, "m"), "twofold call: not_found: ")
    out, _ = call(world, relay, "m", "--json").ends(REFUSED)
    assert json.loads(out)["code"] == "not_found", out


def test_name_that_is_taken(world):
    relay = world.relay()
    serve(world, relay)
    _, err = world.twofold("serve", "-i", world.key("pub"), relay.uri, "thing", "--", "cat").ends(REFUSED)
    assert "thing cannot be published: name_taken: " in err, err
    assert call(world, relay, "upper", "still").succeeds() == b"STILL"


def test_name_of_a_process_that_was_killed_is_taken_over(world):
    relay = world.relay()
    for _ in range(2):
        server = serve(world, relay)
        assert call(world, relay, "upper", "again").succeeds() == b"AGAIN"
        server.kill()  # its session goes on: the relay does not know yet


class Waiting:
    """A call whose command waits until it is told what to answer."""

    def __init__(self, world, relay, name="fifo"):
        os.mkfifo(world.path(name))
        self.program = call(world, relay, "wait", world.path(name))
        self.fifo = open(world.path(name), "wb")  # when the command runs; pylint: disable=consider-using-with

    def finish(self, answer):
        self.fifo.write(answer)
        self.fifo.close()


def test_timeout_and_interrupt(world):
    relay = world.relay()
    server = serve(world, relay, "-v")
    os.mkfifo(world.path("never"))
    out, err = call(world, relay, "wait", world.path("never"), "--timeout", "300ms").ends(TIMEOUT)
    assert out == b"" and "no answer in time" in err, (out, err)
    server.err.wait_for("event=called method=wait")
    open(world.path("never"), "wb").close()  # the command ends
    for number in (signal.SIGINT, signal.SIGTERM):
        waiting = Waiting(world, relay, f"fifo{number}")
        waiting.program.signal(number)
        assert waiting.program.ends(INTERRUPTED) == (b"", "")
        waiting.fifo.close()


def test_serving_peer_is_lost(world):
    relay = world.relay("-c", world.write("short.conf", "[store]\nkind = memory\n[limits]\nsession_timeout = 1s\n"))
    server = serve(world, relay)
    waiting = Waiting(world, relay)
    server.kill()
    rejected(waiting.program, "twofold call: disconnected")
    waiting.fifo.close()
    rejected(call(world, relay, "m"), "not_found")
    serve(world, relay)
    assert call(world, relay, "upper", "again").succeeds() == b"AGAIN"


def test_what_runs_is_finished_at_the_end(world):
    relay = world.relay()
    server = serve(world, relay, "--max-running", "1", "-v")
    waiting = Waiting(world, relay)
    late = call(world, relay, "upper", "late")
    server.err.wait_for("event=called method=upper")
    server.signal(signal.SIGTERM)
    rejected(late, "draining")
    waiting.finish(b"done")
    assert waiting.program.succeeds() == b"done"
    server.ends(OK)
    rejected(call(world, relay, "m"), "not_found")


def test_second_signal_ends_what_runs(world):
    relay = world.relay()
    server = serve(world, relay, "--max-running", "1", "-v")
    waiting = Waiting(world, relay)
    late = call(world, relay, "upper", "late")
    server.err.wait_for("event=called method=upper")
    server.signal(signal.SIGINT)
    rejected(late, "draining")
    server.signal(signal.SIGINT)
    server.ends(INTERRUPTED)
    rejected(waiting.program, "disconnected")
    waiting.fifo.close()


def test_so_many_run_at_a_time(world):
    relay = world.relay()
    log = world.path("log")
    serve(world, relay, "--max-running", "1", env={"LOG": log})
    programs = [call(world, relay, "count", str(number)) for number in range(6)]
    assert [program.succeeds() for program in programs] == [b"%d" % number for number in range(6)]
    with open(log, encoding="utf-8") as file:
        assert file.read() == "begin\nend\n" * 6


def test_what_waits_is_bounded(world):
    """16 MiB of messages wait for their turn; what comes beyond is rejected, and the others go on to wait (P7)."""
    relay = world.relay(allow=("pub", "sub", "alice"))
    server = serve(world, relay, "--max-running", "1")
    waiting = Waiting(world, relay)
    body = world.write("body", bytes(1_000_000))
    programs = [call(world, relay, "cat", "-", key=key, stdin=open(body, "rb")) for key in ("pub", "alice") * 10]
    while sum(not program.is_running() for program in programs) < 4:
        programs[0].err.thread.join(0.05)
    for program in programs:
        if not program.is_running():
            rejected(program, "overloaded")
    waiting.finish(b"")
    waiting.program.succeeds()
    statuses = [program.wait() for program in programs]
    assert statuses.count(OK) == 16 and statuses.count(REFUSED) == 4, statuses
    server.signal(signal.SIGTERM)
    server.ends(OK)


def test_serve_says_what_it_does_with_json(world):
    relay = world.relay()
    server = serve(world, relay, "--json")
    call(world, relay, "upper", "abc").succeeds()
    rejected(call(world, relay, "fail"), "failed")
    server.out.wait_lines(3)
    server.signal(signal.SIGTERM)
    out, _ = server.ends(OK)
    published, first, second = [json.loads(line) for line in out.decode().splitlines()]
    assert published == {"v": 1, "type": "published", "name": "thing"}, published
    assert first.pop("took_us") > 0
    assert first == {"v": 1, "type": "answered", "method": "upper", "code": "ok", "bytes_in": 3, "bytes_out": 3}, first
    assert (second["method"], second["code"]) == ("fail", "failed"), second


def test_it_publishes_again_after_a_restart_of_the_relay(world):
    relay = world.relay(allow=("pub", "sub"))
    server = serve(world, relay)
    assert call(world, relay, "upper", "one").succeeds() == b"ONE"
    for count, end in ((2, signal.SIGTERM), (3, signal.SIGKILL)):
        relay.signal(end)
        relay.wait()
        relay = world.relay(listen=relay.address)
        server.out.wait_for("published", count)
        assert call(world, relay, "upper", "two").succeeds() == b"TWO"
    assert server.is_running()


lib.main(globals())
