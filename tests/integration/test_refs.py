"""ref ls and admin.sock: the references of a relay."""
import json
import os
import shutil
import signal
import socket
import stat
import subprocess

import lib
from lib import OK, REFUSED, UNREACHABLE, USAGE, Skip, check_rows

URI = f"twofold://{'a' * 52}@127.0.0.1:1"


def test_wrong_usage_of_ref(world):
    check_rows(world, [
        (["ref"], USAGE, "'' is not ls", "twofold help ref"),
        (["ref", "list", URI], USAGE, "'list' is not ls"),
        (["ref", "ls"], USAGE, "a URI", "--data DIR", "--admin"),
        (["ref", "ls", URI, "more"], USAGE, "ls needs one of"),
        (["ref", "ls", URI, "--data", "d"], USAGE, "ls needs one of"),
        (["ref", "ls", "--data", "d", "--admin", "s"], USAGE, "ls needs one of"),
        (["ref", "ls", "--data", "nowhere"], UNREACHABLE, "no relay answers at nowhere/admin.sock: No such file"),
        (["ref", "ls", "--admin", "x" * 200], UNREACHABLE, "File name too long"),
    ])


def refs(world, *arguments):
    """The lines of a listing: references, summaries of connections, the last line."""
    out = world.twofold("ref", "ls", "--json", *arguments).succeeds()
    lines = [json.loads(line) for line in out.decode().splitlines()]
    assert all(line["v"] == 1 for line in lines), lines
    return {kind: [line for line in lines if line["type"] == kind] for kind in ("ref", "connection", "node")}


def all_refs(world, data="relay"):
    return refs(world, "--data", world.path(data))


def quiet_refs(world):
    """The same, once one connection is left and all acks are there."""
    while True:
        found = all_refs(world)
        if len(found["connection"]) == 1 and found["connection"][0]["retirements"] == 0:
            return found


def serve(world, relay, name="thing"):
    program = world.twofold("serve", "-i", world.key("sub"), "--ready", relay.uri, name, "--", "sh", "-c", "cat", "sh")
    program.out.wait_for("published")
    return program


def call(world, relay, body):
    return world.twofold("call", "-i", world.key("pub"), relay.uri, "thing", "m", body)


def ask(path, request):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.sendall(request)
        answer = b""
        while part := connection.recv(65536):
            answer += part
    return answer


def test_admin_socket_is_the_owners_and_read_only(world):
    relay = world.relay()
    path = os.path.join(world.path("relay"), "admin.sock")
    mode = os.lstat(path).st_mode
    assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o600, oct(mode)
    assert ask(path, b"GET /version HTTP/1.0\r\n\r\n").endswith(b"\r\n\r\ntwofold 0.1.0\n")
    for request, status in ((b"GET / HTTP/1.1", 404), (b"GET /ref HTTP/1.0", 404), (b"POST /refs HTTP/1.1", 405),
                            (b"DELETE /refs HTTP/1.0", 405), (b"nonsense", 400)):
        answer = ask(path, request + b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 %d " % status), answer
    world.pub(relay.uri, "c", "it goes on").succeeds()
    relay.signal(signal.SIGTERM)
    relay.ends(OK)
    assert not os.path.exists(path)


def test_admin_socket_of_a_relay_that_was_killed_is_replaced(world):
    relay = world.relay()
    path = os.path.join(world.path("relay"), "admin.sock")
    relay.signal(signal.SIGKILL)
    relay.wait()
    assert os.path.exists(path)
    world.twofold("ref", "ls", "--admin", path).ends(UNREACHABLE)
    world.relay()
    assert len(all_refs(world)["node"]) == 1


def test_relay_goes_on_without_admin_socket(world):
    data = "d" * 100
    relay = world.relay(data=data)
    relay.err.wait_for("event=no_admin_socket")
    relay.err.wait_for("at most 107 bytes")
    world.pub(relay.uri, "c", "it works").succeeds()


def test_curl(world):
    if shutil.which("curl") is None:
        raise Skip("there is no curl")
    world.relay()
    path = os.path.join(world.path("relay"), "admin.sock")
    out = subprocess.run(["curl", "-sS", "-i", "--unix-socket", path, "http://localhost/refs"], check=True,
                         stdout=subprocess.PIPE).stdout
    head, body = out.split(b"\r\n\r\n", 1)
    assert head.startswith(b"HTTP/1.1 200 ") and b"application/x-ndjson" in head, head
    assert json.loads(body.splitlines()[-1])["type"] == "node", body


def test_tables_are_back_after_many_calls(world):
    """P5: what calls needed is given back."""
    relay = world.relay()
    server = serve(world, relay)
    before = quiet_refs(world)
    assert {line["peer"] for line in before["ref"]} == {world.id("sub")}, before
    for number in range(30):
        assert call(world, relay, str(number)).succeeds() == b"%d" % number
    after = quiet_refs(world)
    for key in ("exports", "imports", "promises_ours", "promises_theirs", "waiting"):
        assert after["connection"][0][key] == before["connection"][0][key], (before["connection"], after["connection"])
    assert [line["ref"] for line in after["ref"]] == [line["ref"] for line in before["ref"]], (before["ref"], after["ref"])
    assert after["node"][0]["records"] == before["node"][0]["records"], (before["node"], after["node"])
    server.signal(signal.SIGTERM)
    server.ends(OK)


def test_table_for_people(world):
    relay = world.relay()
    serve(world, relay)
    quiet_refs(world)
    lines = world.twofold("ref", "ls", "--data", world.path("relay")).succeeds().decode().splitlines()
    assert lines[0].split() == ["PEER", "SESSION", "REF", "KIND", "ROLE", "LOCAL", "MENTIONED", "RETIRED", "REVOKED",
                                "COUNT"], lines
    assert all(line.split()[0] == world.id("sub")[:12] for line in lines[1:-2]), lines
    assert lines[-2].startswith("# connection ") and "retirements 0" in lines[-2], lines
    assert lines[-1].startswith("# node ") and "records" in lines[-1], lines


def test_own_references(world):
    relay = world.relay()
    serve(world, relay)
    listed = refs(world, "-i", world.key("pub"), relay.uri)
    assert listed["connection"] == [] and listed["node"] == []
    roles = sorted((line["kind"], line["role"], line["ref"]) for line in listed["ref"])
    assert roles == [("object", "export", 1), ("object", "import", 0)], roles  # the roots of both
    table = world.twofold("ref", "ls", "-i", world.key("pub"), relay.uri).succeeds().decode().splitlines()
    assert table[0].split()[0] == "REF" and len(table) == 3, table
    _, err = world.twofold("ref", "ls", "-i", world.key("stranger"), relay.uri).ends(REFUSED)
    assert "refused" in err, err


lib.main(globals())
