"""Only those let in (P8), and bad input costs nothing (P7): strangers, random bytes, half handshakes, replayed and
forged datagrams. The service goes on, and 10 000 of them produce fewer than 20 lines of log."""
import random
import shutil
import socket
import ssl
import subprocess
import time

import lib
from hostile import LOG_LINES_MAX, Traffic, client_hello

SEED = 20


def log_lines(relay):
    return relay.err.lines


def connect(relay):
    sock = socket.create_connection(("127.0.0.1", relay.port))
    sock.settimeout(lib.HANG)
    return sock


def rest(sock):
    """All bytes until the connection ends, in whatever way."""
    data = b""
    try:
        while part := sock.recv(65536):
            data += part
    except (ConnectionError, ssl.SSLError):
        pass
    sock.close()
    return data


def self_signed(world, kind):
    if not shutil.which("openssl"):
        raise lib.Skip("openssl is not installed")
    key, certificate = world.path(kind + ".pem"), world.path(kind + ".crt")
    options = {"ed25519": ["ed25519"], "ec": ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"]}[kind]
    subprocess.run(["openssl", "req", "-x509", "-newkey", *options, "-nodes", "-subj", "/CN=stranger", "-days", "30",
                    "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return key, certificate


def tls(relay, identity=None, alpn=("twofold/1",), version=ssl.TLSVersion.TLSv1_3):
    """What a raw TLS client gets after its handshake: application bytes, or an error."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = version
    if version < ssl.TLSVersion.TLSv1_3:
        context.minimum_version = version
    context.set_alpn_protocols(list(alpn))
    if identity:
        context.load_cert_chain(identity[1], identity[0])
    sock = connect(relay)
    try:
        wrapped = context.wrap_socket(sock)
    except (ssl.SSLError, ConnectionError) as error:
        sock.close()
        return b"", error
    return rest(wrapped), None


def test_stranger_with_our_program_is_refused_at_once(world):
    relay = world.relay()
    traffic = Traffic(world, relay)
    for command in ("pub", "sub"):
        client = getattr(world, command)(relay.uri, "c", *(["hello"] if command == "pub" else []), key="stranger")
        out, err = client.ends(lib.REFUSED)
        assert out == b"" and "refused" in err and world.id("stranger") in err, (out, err)
    assert len(relay.events("handshake_refused")) == 2, relay.err.text()
    traffic.ends_well()


def test_stranger_with_raw_tls_gets_a_closed_connection(world):
    relay = world.relay()
    traffic = Traffic(world, relay)
    for identity in (None, self_signed(world, "ed25519"), self_signed(world, "ec")):
        got, _ = tls(relay, identity)
        assert got == b"", f"{len(got)} bytes for a stranger with {identity}"
    got, error = tls(relay, self_signed(world, "ed25519"), alpn=("http/1.1",))
    assert got == b"", got
    got, error = tls(relay, self_signed(world, "ed25519"), version=ssl.TLSVersion.TLSv1_2)
    assert got == b"" and error is not None, "TLS 1.2 was accepted"
    traffic.ends_well()


def test_wrong_pin_in_the_uri_is_refused_by_the_client(world):
    relay = world.relay()
    uri = relay.uri.replace(relay.node, world.id("other"))
    _, err = world.pub(uri, "c", "hello").ends(lib.REFUSED)
    assert "refused" in err, err


def test_accept_any_lets_every_key_in(world):
    relay = world.relay("--accept", "any", allow=())
    world.pub(relay.uri, "c", "hello", key="stranger").succeeds()
    assert world.sub(relay.uri, "c", "--from", "first", "-n", "1", key="other").succeeds() == b"hello\n"


def test_a_megabyte_of_random_bytes_to_each_port(world):
    rng = random.Random(SEED)
    relay = world.relay()
    traffic = Traffic(world, relay)
    traffic.send()
    before = log_lines(relay)
    for _ in range(16):
        sock = connect(relay)
        try:
            sock.sendall(rng.randbytes(1 << 16))
            sock.shutdown(socket.SHUT_WR)
        except ConnectionError:
            pass
        assert len(rest(sock)) < 100, "more than an alert for random bytes"
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    left = 1 << 20
    while left > 0:
        size = min(left, rng.randrange(0, 1400))
        sender.sendto(rng.randbytes(size), ("127.0.0.1", relay.port))
        left -= max(size, 1)
    sender.setblocking(False)
    traffic.send(10)
    try:
        answer = sender.recv(2000)
        raise AssertionError(f"{len(answer)} bytes in answer to random datagrams")
    except BlockingIOError:
        pass
    traffic.ends_well()
    assert log_lines(relay) - before < LOG_LINES_MAX, relay.err.text()


def test_truncated_tls_at_every_step(world):
    relay = world.relay()
    traffic = Traffic(world, relay)
    traffic.send()
    before = log_lines(relay)
    hello = client_hello()
    held = []
    for length in [*range(0, len(hello), 7), len(hello)]:
        sock = connect(relay)
        sock.sendall(hello[:length])
        if length % 2 == 0:
            held.append(sock)  # stays open in the middle of its handshake
        else:
            sock.shutdown(socket.SHUT_WR)
            rest(sock)
    damaged = bytearray(hello)
    damaged[len(damaged) // 2] ^= 0xFF
    sock = connect(relay)
    sock.sendall(damaged)
    sock.shutdown(socket.SHUT_WR)
    rest(sock)
    traffic.ends_well()
    for sock in held:
        sock.close()
    assert log_lines(relay) - before < LOG_LINES_MAX, relay.err.text()


def packets_of(path):
    """The datagrams in a record of the forwarder."""
    with open(path, "rb") as file:
        data = file.read()
    packets, at = [], 0
    while at + 2 <= len(data):
        size = int.from_bytes(data[at:at + 2], "big")
        packets.append(data[at + 2:at + 2 + size])
        at += 2 + size
    return [packet for packet in packets if packet]


def test_ten_thousand_replayed_and_forged_datagrams(world):
    rng = random.Random(SEED)
    relay = world.relay()
    record = world.path("record")
    forwarder = world.forwarder(relay, "--udp-record", record)
    traffic = Traffic(world, relay, relay.uri_via(forwarder))
    packets = []
    while len(packets) < 50:
        traffic.send(10)
        packets = packets_of(record)
    before = log_lines(relay)
    senders = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(4)]
    for number in range(10000):
        packet = bytearray(rng.choice(packets))
        if number % 2 == 1:  # forged: one bit, a cut, or an addition
            kind = rng.randrange(3)
            if kind == 0:
                packet[rng.randrange(len(packet))] ^= 1 << rng.randrange(8)
            elif kind == 1:
                del packet[rng.randrange(len(packet)):]
            else:
                packet += rng.randbytes(rng.randrange(1, 20))
        senders[number % 4].sendto(packet, ("127.0.0.1", relay.port))
        if number % 250 == 0:
            traffic.send()
    for sender in senders:
        sender.setblocking(False)
        try:
            answer = sender.recv(2000)
            raise AssertionError(f"{len(answer)} bytes in answer to replayed or forged datagrams")
        except BlockingIOError:
            pass
    traffic.ends_well()
    lines = log_lines(relay) - before
    assert lines < LOG_LINES_MAX, f"{lines} lines: {relay.err.tail()}"


def test_attacker_who_races_copies_from_another_address_breaks_nothing(world):
    """What the client sent is withheld and delivered by somebody else: genuine packets from a false address."""
    relay = world.relay()
    record = world.path("record")
    forwarder = world.forwarder(relay, "--udp-record", record)
    traffic = Traffic(world, relay, relay.uri_via(forwarder))
    traffic.send(20)
    forwarder.command("datagram cut up")
    known = len(packets_of(record))
    withheld = []
    while not withheld:
        traffic.send(20)
        withheld = packets_of(record)[known:]
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for packet in withheld:
        sender.sendto(packet, ("127.0.0.1", relay.port))
    relay.err.wait_for("event=address_kept")
    traffic.send(20)
    forwarder.command("datagram heal")
    traffic.send(20)
    traffic.ends_well()
    assert not relay.events("address_moved"), relay.err.text()


def test_many_idle_connections_leave_room_for_peers(world):
    relay = world.relay()
    idle = [connect(relay) for _ in range(300)]
    started = time.monotonic()
    world.pub(relay.uri, "c", "hello").succeeds()
    print(f"        with 300 idle connections a send took {time.monotonic() - started:.2f} s")
    for sock in idle:
        sock.close()


if __name__ == "__main__":
    lib.main(globals())
