"""tf-path itself: what goes in comes out unchanged and in order, or is counted as what became of it."""
import subprocess
import sys

import field_job
import lib

PACKETS = 400

# Sends numbered datagrams, then a few one after the other that are repeated until they are answered: when the last one is,
# all that went before have come or never will.
SENDER = """
import socket, sys
count, size = int(sys.argv[1]), int(sys.argv[2])
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.connect(("10.80.0.2", 7000))
for number in range(count):
    sock.send(b"%d " % number + b"x" * size)
sock.settimeout(0.2)
for end in (b"end0", b"end1", b"end2", b"end3"):
    answer = None
    while answer != end:
        sock.send(end)
        try:
            answer = sock.recv(100)
        except TimeoutError:
            pass
"""
RECEIVER = """
import socket
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.setsockopt(socket.SOL_SOCKET, 33, 4 << 20)  # SO_RCVBUFFORCE
sock.bind(("10.80.0.2", 7000))
print("ready", flush=True)
while True:
    data, sender = sock.recvfrom(65535)
    if data.startswith(b"end"):
        sock.sendto(data, sender)
        if data == b"end3":
            break
        continue
    print(data.split()[0].decode(), len(data.split()[1]), flush=True)
"""
# Says with each line what it was answered, and the port that it has itself.
ASKER = """
import socket, sys
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.settimeout(60)
sock.connect(("10.80.0.2", 7000))
for line in sys.stdin:
    sock.send(line.strip().encode())
    print(sock.recv(100).decode(), sock.getsockname()[1], flush=True)
"""
# Answers with the port that it sees; to "all", by every port it ever saw, the newest one last.
ANSWERER = """
import socket
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind(("10.80.0.2", 7000))
print("ready", flush=True)
seen = []
while True:
    data, sender = sock.recvfrom(100)
    seen += [] if sender in seen else [sender]
    for each in seen if data == b"all" else [sender]:
        sock.sendto(b"%d" % each[1], each)
"""


def exchange(lab, count=PACKETS, size=100):
    """The (number, length) of each datagram in the order in which b got them."""
    receiver = subprocess.Popen(lab.command("b", [sys.executable, "-c", RECEIVER]), stdout=subprocess.PIPE, text=True)
    try:
        assert receiver.stdout.readline() == "ready\n"
        subprocess.run(lab.command("a", [sys.executable, "-c", SENDER, str(count), str(size)]), check=True)
        said = receiver.communicate()[0]
    finally:
        receiver.kill()
        receiver.wait()
    return [tuple(map(int, line.split())) for line in said.splitlines()]


def balance(stats, way):
    """What became of the packets of one way is all there were."""
    gone = sum(stats[way + "_" + key] for key in ("out", "lost", "holed", "too_long", "overflow", "unmapped", "waiting"))
    assert stats[way + "_in"] + stats[way + "_repeated"] == gone, stats


def test_a_path_without_faults_passes_all_unchanged_and_in_order(_world):
    with field_job.laboratory(delay=1) as lab:
        assert exchange(lab) == [(number, 100) for number in range(PACKETS)]
        stats = lab.paths[0].stats()
        assert stats["ab_udp"] >= PACKETS and stats["ab_lost"] + stats["ab_holed"] + stats["ab_overflow"] == 0, stats
        balance(stats, "ab")
        balance(stats, "ba")


def hurt(seed):
    with field_job.laboratory(delay=5, seed=seed) as lab:
        for fault in ("loss 20", "repeat 10", "jitter 4"):
            lab.paths[0].set(fault, "ab")
        got = [number for number, _ in exchange(lab)]
        stats = lab.paths[0].stats()
        balance(stats, "ab")
        assert stats["ba_lost"] == 0 and stats["ba_repeated"] == 0, stats
        return got


def test_faults_at_random_are_counted_and_come_from_the_seed(_world):
    first, again, other = hurt(1), hurt(1), hurt(2)
    assert len(set(first)) < PACKETS and len(first) > len(set(first)) and first != sorted(first), first
    assert set(first) - set(range(PACKETS)) == set()
    assert set(first) == set(again) and len(set(first) ^ set(other)) > 0


def test_a_hole_and_a_longest_packet_hold_in_their_direction(_world):
    with field_job.laboratory(delay=1) as lab:
        path = lab.paths[0]
        path.set("mtu 1000", "ab")
        assert exchange(lab, 10, 1200) == []
        assert exchange(lab, 10, 900) == [(number, 900) for number in range(10)]
        assert path.stats()["ab_too_long"] == 10 and path.stats()["ba_too_long"] == 0
        path.set("mtu 0")
        path.set("hole 1", "ba")
        pinged = subprocess.run(lab.command("a", ["ping", "-c", "3", "-i", "0.2", "-W", "1", "10.80.0.2"]), check=False,
                                capture_output=True)
        assert pinged.returncode != 0
        assert path.stats()["ab_holed"] == 0 and path.stats()["ba_holed"] == 3, path.stats()


def test_a_rate_drops_what_its_queue_does_not_hold(_world):
    with field_job.laboratory(delay=1) as lab:
        lab.paths[0].set("queue 20000", "ab")
        lab.paths[0].set("rate 1000", "ab")
        got = exchange(lab, PACKETS, 1000)
        assert 10 < len(got) < PACKETS and got == sorted(got), len(got)
        assert lab.paths[0].stats()["ab_overflow"] > 0
        balance(lab.paths[0].stats(), "ab")


def ask(program, line):
    """The port that the other end saw, and that of the socket."""
    program.stdin.write(line + "\n")
    program.stdin.flush()
    return tuple(map(int, program.stdout.readline().split()))


def test_a_nat_that_forgets_has_other_ports_and_drops_what_comes_for_the_old(_world):
    with field_job.laboratory(delay=1) as lab:
        path, pipe = lab.paths[0], subprocess.PIPE
        there = subprocess.Popen(lab.command("b", [sys.executable, "-c", ANSWERER]), stdout=pipe, text=True)
        here = None
        try:
            assert there.stdout.readline() == "ready\n"
            here = subprocess.Popen(lab.command("a", [sys.executable, "-c", ASKER]), stdin=pipe, stdout=pipe, text=True)
            ports = [ask(here, "one")[0]]
            assert ask(here, "one") == (ports[0], ports[0]), ports
            for time in range(1, 4):
                assert path.ask("rebind") == "ok"
                port, own = ask(here, "one")
                assert port not in ports and own == ports[0], (port, own, ports)
                ports.append(port)
                assert ask(here, "all") == (port, own)
                stats = path.stats()
                assert stats["ba_unmapped"] == time * (time + 1) // 2 and stats["ab_unmapped"] == 0, stats
                balance(stats, "ab")
                balance(stats, "ba")
        finally:
            for program in filter(None, (here, there)):
                program.kill()
                program.communicate()


def test_what_is_no_command_is_refused(_world):
    with field_job.laboratory() as lab:
        for line in ("", "loss", "loss 101", "loss -1", "loss nan", "loss 1 up", "hole 2", "delay 1 ab x", "nonsense 1",
                     "stats x y", "rebind ab", "x" * 200):
            assert lab.paths[0].ask(line).startswith("error"), line
        assert lab.paths[0].ask("loss 1.5 ab") == "ok"


field_job.skip_file()
lib.main(globals())
