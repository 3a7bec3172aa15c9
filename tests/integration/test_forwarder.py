"""tf-forwarder with plain sockets: what passes, and what each fault does. No verdict depends on how long things take:
waits end with the event they wait for, and limits on them only end what hangs."""
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import traceback

from forwarder import BINARY, Forwarder

HANG = 60  # seconds; ends what hangs


def tcp_listener():
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(HANG)
    return listener, "127.0.0.1:%d" % listener.getsockname()[1]


def udp_socket():
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 0))
    sock.settimeout(HANG)
    return sock, "127.0.0.1:%d" % sock.getsockname()[1]


def connect(forwarder, listener):
    client = socket.create_connection(("127.0.0.1", forwarder.port), HANG)
    server, _ = listener.accept()
    server.settimeout(HANG)
    return client, server


def read_exactly(sock, count):
    data = b""
    while len(data) < count:
        part = sock.recv(count - len(data))
        if not part:
            raise AssertionError(f"the end after {len(data)} of {count} bytes")
        data += part
    return data


def ends(sock):
    """True when the connection has ended (orderly or by a reset) after whatever was still under way."""
    try:
        while sock.recv(65536):
            pass
        return True
    except ConnectionError:
        return True


def fill(sock):
    """Sends until the system takes no more for a while; how many bytes it took."""
    sock.settimeout(0.3)
    taken = 0
    try:
        while taken < 64 << 20:
            taken += sock.send(bytes(65536))
    except TimeoutError:
        pass
    sock.settimeout(HANG)
    return taken


def stats_until(forwarder, condition):
    """Asks for the counters until they are as they should be; the test hangs, and is ended, if that never comes."""
    while not condition(stats := forwarder.stats()):
        pass
    return stats


def test_tcp_passes_both_ways_with_half_close():
    listener, address = tcp_listener()
    with Forwarder(address) as forwarder:
        client, server = connect(forwarder, listener)
        data = os.urandom(300000)
        client.settimeout(HANG)
        client.sendall(data[:200000])
        client.shutdown(socket.SHUT_WR)
        assert read_exactly(server, 200000) == data[:200000]
        assert server.recv(1) == b""
        server.sendall(data[200000:])
        server.close()
        assert read_exactly(client, 100000) == data[200000:]
        assert client.recv(1) == b""
        stats = stats_until(forwarder, lambda s: s["stream_open"] == 0)
        assert stats["stream_up_bytes"] == 200000 and stats["stream_down_bytes"] == 100000, stats
        assert stats["stream_accepted"] == 1 and stats["stream_cut"] == 0, stats


def test_tcp_unreachable_relay_ends_the_client():
    listener, address = tcp_listener()
    listener.close()
    with Forwarder(address) as forwarder:
        client = socket.create_connection(("127.0.0.1", forwarder.port), HANG)
        assert ends(client)
        assert forwarder.stats()["stream_refused"] == 1


def test_tcp_reset_passes_as_a_reset():
    listener, address = tcp_listener()
    with Forwarder(address) as forwarder:
        client, server = connect(forwarder, listener)
        client.sendall(b"x")
        assert server.recv(1) == b"x"
        server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        server.close()
        client.settimeout(HANG)
        try:
            data = client.recv(1)
            raise AssertionError(f"{data!r} instead of a reset")
        except ConnectionResetError:
            pass


def test_tcp_stall_is_felt_and_loses_nothing():
    listener, address = tcp_listener()
    with Forwarder(address) as forwarder:
        client, server = connect(forwarder, listener)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
        client.sendall(b"x")
        assert server.recv(1) == b"x"
        forwarder.command("stream stall")
        taken = fill(client)
        assert taken < 1 << 20, f"{taken} bytes went into a stalled stream"
        assert forwarder.stats()["stream_up_bytes"] == 1
        assert forwarder.stats()["stream_open"] == 1
        forwarder.command("stream flow")
        read_exactly(server, taken)
        assert forwarder.stats()["stream_up_bytes"] == 1 + taken


def test_tcp_stall_of_one_direction_leaves_the_other():
    listener, address = tcp_listener()
    with Forwarder(address) as forwarder:
        client, server = connect(forwarder, listener)
        forwarder.command("stream stall up")
        client.sendall(b"up")
        server.sendall(b"down")
        assert read_exactly(client, 4) == b"down"
        assert forwarder.stats()["stream_up_bytes"] == 0
        forwarder.command("stream flow up")
        assert read_exactly(server, 2) == b"up"


def test_tcp_cut_resets_and_refuses_until_healed():
    listener, address = tcp_listener()
    with Forwarder(address) as forwarder:
        client, server = connect(forwarder, listener)
        forwarder.command("stream cut")
        assert ends(client) and ends(server)
        try:
            socket.create_connection(("127.0.0.1", forwarder.port), HANG)
            raise AssertionError("a connection while the stream is cut")
        except ConnectionRefusedError:
            pass
        forwarder.command("stream heal")
        client, server = connect(forwarder, listener)
        client.sendall(b"again")
        assert read_exactly(server, 5) == b"again"
        assert forwarder.stats()["stream_cut"] == 1


def test_tcp_delay_keeps_order_and_bytes():
    listener, address = tcp_listener()
    with Forwarder(address, "--tcp-delay", "20") as forwarder:
        client, server = connect(forwarder, listener)
        data = os.urandom(500000)
        client.settimeout(HANG)
        client.sendall(data)
        assert read_exactly(server, len(data)) == data
        client.shutdown(socket.SHUT_WR)
        assert server.recv(1) == b""


def test_tcp_rate_jitter_and_drop_are_felt_and_keep_order_and_bytes():
    rows = (("tcp-rate 400 up", 30000, 0.6), ("tcp-jitter 30 up", 100000, 0), ("tcp-drop 100 up", 10, 0.2))
    for command, count, least in rows:
        listener, address = tcp_listener()
        with Forwarder(address) as forwarder:
            client, server = connect(forwarder, listener)
            forwarder.command(command)
            data = os.urandom(count)
            client.settimeout(HANG)
            began = time.monotonic()
            client.sendall(data)
            assert read_exactly(server, len(data)) == data, command
            took = time.monotonic() - began
            assert took >= least, f"{command}: {took} s"
            assert forwarder.stats()["stream_resent"] == (1 if "drop" in command else 0), command
            server.sendall(b"back")
            assert read_exactly(client, 4) == b"back"


def test_tcp_close_every_ends_connections_at_odd_places():
    listener, address = tcp_listener()
    places = set()
    with Forwarder(address, "--tcp-close-every", "20", "--seed", "3") as forwarder:
        for _ in range(5):
            client, server = connect(forwarder, listener)
            client.settimeout(HANG)
            got = 0
            try:
                while True:
                    client.sendall(b"y" * 100)
                    got += len(server.recv(100))
            except ConnectionError:
                pass
            assert ends(server)
            places.add(got % 100)
        stats_until(forwarder, lambda s: s["stream_cut"] == 5 and s["stream_open"] == 0)
    assert len(places) > 1, places


def test_udp_passes_both_ways_for_each_client():
    relay, address = udp_socket()
    with Forwarder(address) as forwarder:
        clients = [udp_socket()[0] for _ in range(3)]
        for number, client in enumerate(clients):
            client.sendto(b"hello%d" % number, ("127.0.0.1", forwarder.port))
            data, source = relay.recvfrom(100)
            assert data == b"hello%d" % number
            relay.sendto(data + b"!", source)
        for number, client in enumerate(clients):
            assert client.recvfrom(100) == (b"hello%d!" % number, ("127.0.0.1", forwarder.port))
        clients[0].sendto(b"", ("127.0.0.1", forwarder.port))
        assert relay.recvfrom(100)[0] == b""
        stats = forwarder.stats()
        assert stats["datagram_clients"] == 3 and stats["datagram_up_packets"] == 4, stats
        assert stats["datagram_down_bytes"] == 3 * 7, stats


def exchange(forwarder, relay, count):
    """Sends numbered datagrams up one at a time, each followed by a question that tells that it was dealt with."""
    client, _ = udp_socket()
    for number in range(count):
        before = forwarder.stats()
        client.sendto(struct.pack("!I", number), ("127.0.0.1", forwarder.port))
        stats_until(forwarder, lambda s: dealt_with(s) > dealt_with(before))
    stats = stats_until(forwarder, lambda s: s["datagram_waiting"] == 0)
    relay.setblocking(False)
    got = []
    try:
        while True:
            got.append(struct.unpack("!I", relay.recv(100))[0])
    except BlockingIOError:
        pass
    relay.settimeout(HANG)
    return got, stats


def dealt_with(stats):
    return sum(stats["datagram_up_" + key] for key in ("packets", "dropped", "cut", "too_long", "overflow")) + \
        stats["datagram_waiting"]


def test_udp_drop_and_repeat_follow_the_odds_and_are_counted():
    relay, address = udp_socket()
    with Forwarder(address, "--udp-drop", "30", "--udp-repeat", "20", "--seed", "7") as forwarder:
        got, stats = exchange(forwarder, relay, 300)
        assert len(set(got)) == 300 - stats["datagram_up_dropped"], stats
        assert len(got) == len(set(got)) + stats["datagram_up_repeated"], stats
        assert 50 < stats["datagram_up_dropped"] < 130 and 20 < stats["datagram_up_repeated"] < 80, stats
        assert got == sorted(got)


def test_udp_drop_comes_in_bursts():
    relay, address = udp_socket()
    with Forwarder(address, "--udp-drop", "30", "--seed", "7") as forwarder:
        forwarder.command("udp-burst 6 up")
        got, stats = exchange(forwarder, relay, 300)
        bursts = sum(after != before + 1 for before, after in zip(got, got[1:]))
        assert 40 < stats["datagram_up_dropped"] < 160 and 3 * bursts < stats["datagram_up_dropped"], (bursts, stats)


def test_udp_same_seed_drops_the_same():
    runs = []
    for _ in range(2):
        relay, address = udp_socket()
        with Forwarder(address, "--udp-drop", "50", "--seed", "11") as forwarder:
            runs.append(exchange(forwarder, relay, 60)[0])
    assert runs[0] == runs[1]


def test_udp_reorder_loses_nothing():
    relay, address = udp_socket()
    with Forwarder(address, "--udp-reorder", "50", "--seed", "5") as forwarder:
        client, _ = udp_socket()
        for number in range(200):
            client.sendto(struct.pack("!I", number), ("127.0.0.1", forwarder.port))
        got = [struct.unpack("!I", relay.recv(100))[0] for _ in range(200)]
        assert sorted(got) == list(range(200))
        assert got != sorted(got)
        assert forwarder.stats()["datagram_up_reordered"] > 50


def test_udp_delay_keeps_order():
    relay, address = udp_socket()
    with Forwarder(address, "--udp-delay", "15") as forwarder:
        client, _ = udp_socket()
        for number in range(100):
            client.sendto(struct.pack("!I", number), ("127.0.0.1", forwarder.port))
        assert [struct.unpack("!I", relay.recv(100))[0] for _ in range(100)] == list(range(100))


def test_udp_jitter_lets_them_overtake_each_other():
    relay, address = udp_socket()
    with Forwarder(address) as forwarder:
        forwarder.command("udp-jitter 50 up")
        client, _ = udp_socket()
        for number in range(200):
            client.sendto(struct.pack("!I", number), ("127.0.0.1", forwarder.port))
        got = [struct.unpack("!I", relay.recv(100))[0] for _ in range(200)]
        assert sorted(got) == list(range(200)) and got != sorted(got)


def test_udp_rate_drops_what_its_queue_does_not_hold():
    relay, address = udp_socket()
    with Forwarder(address) as forwarder:
        forwarder.command("udp-queue 5000 up")
        forwarder.command("udp-rate 80 up")  # ten of them a second
        client, _ = udp_socket()
        began = time.monotonic()
        for _ in range(30):
            client.sendto(bytes(1000), ("127.0.0.1", forwarder.port))
        stats = stats_until(forwarder, lambda s: dealt_with(s) == 30)
        assert stats["datagram_up_overflow"] > 0, stats
        for _ in range(5):
            assert len(relay.recv(2000)) == 1000
        assert time.monotonic() - began >= 0.4


def test_a_queue_that_others_fill_is_felt_in_its_direction():
    relay, udp_address = udp_socket()
    listener, tcp_address = tcp_listener()
    with Forwarder(udp_address) as over_udp, Forwarder(tcp_address) as over_tcp:
        over_udp.command("udp-bloat 60 up")
        over_tcp.command("tcp-bloat 60 up")
        client, _ = udp_socket()
        stream, server = connect(over_tcp, listener)
        late = [0, 0]
        while min(late) < 0.04:  # it grows while nothing goes wrong, by a quarter of the time
            began = time.monotonic()
            client.sendto(b"x", ("127.0.0.1", over_udp.port))
            source = relay.recvfrom(100)[1]
            late[0] = time.monotonic() - began
            began = time.monotonic()
            stream.sendall(b"y")
            assert server.recv(100) == b"y"
            late[1] = time.monotonic() - began
        relay.sendto(b"back", source)
        assert client.recv(100) == b"back"


def test_udp_cut_of_each_direction():
    relay, address = udp_socket()
    with Forwarder(address) as forwarder:
        client, _ = udp_socket()
        client.sendto(b"open", ("127.0.0.1", forwarder.port))
        source = relay.recvfrom(100)[1]
        forwarder.command("datagram cut down")
        relay.sendto(b"lost", source)
        stats_until(forwarder, lambda s: s["datagram_down_cut"] == 1)
        client.sendto(b"up", ("127.0.0.1", forwarder.port))
        assert relay.recv(100) == b"up"
        forwarder.command("datagram heal")
        relay.sendto(b"back", source)
        assert client.recv(100) == b"back"
        forwarder.command("datagram cut")
        client.sendto(b"gone", ("127.0.0.1", forwarder.port))
        stats_until(forwarder, lambda s: s["datagram_up_cut"] == 1)


def test_udp_mtu_drops_what_is_longer():
    relay, address = udp_socket()
    with Forwarder(address, "--udp-mtu", "1200") as forwarder:
        client, _ = udp_socket()
        for size in (1201, 1200):
            client.sendto(bytes(size), ("127.0.0.1", forwarder.port))
        assert len(relay.recv(2000)) == 1200
        assert forwarder.stats()["datagram_up_too_long"] == 1


def test_udp_rebind_changes_the_port_that_the_relay_sees():
    relay, address = udp_socket()
    with Forwarder(address) as forwarder:
        client, _ = udp_socket()
        client.sendto(b"one", ("127.0.0.1", forwarder.port))
        before = relay.recvfrom(100)[1]
        forwarder.command("datagram rebind")
        client.sendto(b"two", ("127.0.0.1", forwarder.port))
        data, after = relay.recvfrom(100)
        assert data == b"two" and after != before
        relay.sendto(b"answer", after)
        assert client.recv(100) == b"answer"


def test_udp_record_holds_what_the_client_sent():
    relay, address = udp_socket()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "packets")
        with Forwarder(address, "--udp-record", path, "--udp-drop", "100") as forwarder:
            client, _ = udp_socket()
            for data in (b"abc", bytes(300)):
                client.sendto(data, ("127.0.0.1", forwarder.port))
            stats_until(forwarder, lambda s: s["datagram_up_dropped"] == 2)
        with open(path, "rb") as file:
            assert file.read() == b"\0\3abc" + b"\1\x2c" + bytes(300)


def test_commands_answer_on_the_unix_socket():
    relay, address = udp_socket()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "control")
        with Forwarder(address, "--control", path) as forwarder:
            control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            control.settimeout(HANG)
            control.connect(path)
            control.sendall(b"udp-drop 5\nudp-drop 101\nudp-drop 5 sideways\nnonsense\n\nstream stall up down\n")
            lines = control.makefile("r")
            answers = [lines.readline().split(":")[0].strip() for _ in range(6)]
            assert answers == ["ok", "error", "error", "error", "error", "error"], answers
            control.sendall(b"x" * 100000)
            assert ends(control), "an endless line is not taken"
            other = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            other.connect(path)
            other.sendall(b"quit\n")
            assert forwarder.process.wait(HANG) == 0
        assert not os.path.exists(path)


def test_bad_arguments_are_told():
    for arguments in ([], ["--listen", "127.0.0.1:0"], ["--listen", "127.0.0.1:0", "--to", "nowhere"],
                      ["--listen", "127.0.0.1:0", "--to", "127.0.0.1:9", "--udp-drop", "many"],
                      ["--listen", "127.0.0.1:0", "--to", "127.0.0.1:9", "extra"]):
        run = subprocess.run([BINARY, *arguments], check=False, capture_output=True, timeout=HANG)
        assert run.returncode == 2 and run.stderr, (arguments, run)


def test_term_ends_it_with_status_0():
    _, address = udp_socket()
    with Forwarder(address) as forwarder:
        forwarder.process.send_signal(signal.SIGTERM)
        assert forwarder.process.wait(HANG) == 0


def main():
    if not BINARY or not os.path.exists(BINARY):
        print("TF_FORWARDER does not name the program")
        sys.exit(1)
    tests = [(name, test) for name, test in globals().items() if name.startswith("test_")]
    failed = 0
    for name, test in tests:
        try:
            test()
            print(f"ok      {name}", flush=True)
        except Exception:  # pylint: disable=broad-except
            failed += 1
            print(f"failed  {name}\n{traceback.format_exc()}", flush=True)
    print(f"{len(tests) - failed} passed, {failed} failed, 0 skipped")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
