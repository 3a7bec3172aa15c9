"""A job in the field laboratory: a relay and a subscriber in namespace b, a publisher in a (or the other way about), the
stream on one path and the datagrams on the other; and what all such tests judge: nothing lost, nothing twice, in order,
no storm. Nothing here depends on how fast it is: lines flow until the faults are over, and what must happen is waited
for in lines delivered.

    with field_job.laboratory() as lab:
        job = field_job.Job(world, lab)
        job.stream_path.set("hole 1")
        job.more(500)
        job.stream_path.set("hole 0")
        job.carries_again(job.stream_path)
        job.succeeds()
"""
import contextlib
import json
import re
import subprocess
import sys
import threading
import time

import field
import lib

RATE = 500  # lines a second
SIZE = 200  # bytes of a line
SPAN_MAX = 120  # seconds; a job that takes longer does not end by itself
# Datagrams in both directions: so many for each message (its copies, repairs, acks of packets, of segments and of the
# send), and so many a second with nothing to do. A storm is far above.
PACKETS_PER_MESSAGE = 8
PACKETS_PER_SECOND = 200
CARRIED = 50 * SIZE  # bytes on a path that are more than probes and handshakes


@contextlib.contextmanager
def laboratory(**options):
    """A Lab; the test is skipped where there can be none."""
    try:
        lab = field.Lab(**options)
    except field.Unavailable as reason:
        raise lib.Skip(str(reason)) from reason
    with lab:
        yield lab


def skip_file():
    """Ends the program with 77 where there can be no laboratory at all."""
    try:
        field.check()
    except field.Unavailable as reason:
        print(f"skipped: {reason}\n0 passed, 0 failed, 1 skipped")
        sys.exit(77)


class Feed(threading.Thread):
    """Writes RATE lines a second to a program, those of `every` seconds at once, until it is stopped or they were `most`;
    never waits for what became of them."""

    def __init__(self, file, every, most):
        super().__init__(daemon=True)
        self.file, self.every, self.most = file, every, most
        self.written = 0
        self.over = threading.Event()
        self.start()

    def run(self):
        try:
            self.write_all()
            self.file.close()
        except BrokenPipeError:
            pass  # the program has ended, and its status says why

    def write_all(self):
        began = time.monotonic()
        while not self.over.wait(self.every) and self.written < self.most:
            due = min(int((time.monotonic() - began) * RATE), self.most)
            self.file.write(b"".join(line(number) + b"\n" for number in range(self.written, due)))
            self.file.flush()
            self.written = due

    def stop(self):
        """How many lines there were."""
        self.over.set()
        self.join()
        return self.written


def line(number):
    return (b"%d " % number).ljust(SIZE, b".")


class Job:
    """stream: the path of the stream, 0 or 1; the datagrams take the other one. far: which client is in a, "pub" or
    "sub". routes: of that client. every: Feed. config: text of the relay's. span: seconds it may take."""

    def __init__(self, world, lab, stream=0, far="pub", routes="both", every=0.005, config="", span=SPAN_MAX):
        self.world, self.lab, self.stream, self.far = world, lab, stream, far
        self.relay = lib.Relay(lab.command("b", [
            lib.TWOFOLD, "relay", "--listen", "0.0.0.0:0", "--print-uri", "--data", world.path("relay"),
            "-c", world.write("relay.conf", config), "--max-in-flight", "256", "--allow", world.id("pub"), "--allow", world.id("sub")]), world.env)
        world.programs.append(self.relay)
        port, node = self.relay.port, self.relay.node
        self.uri = {"pub": f"twofold://{node}@127.0.0.1:{port}", "sub": f"twofold://{node}@127.0.0.1:{port}",
                    far: f"twofold://{node}@10.8{stream}.0.2:{port}?datagram=10.8{1 - stream}.0.2:{port}"}
        self.began = time.monotonic()
        self.before = [path.stats() for path in lab.paths]
        self.sub = self.start("sub", ["--json", "--verify", "--from", "first"], routes)
        self.pub = self.start("pub", ["--max-in-flight", "256"], routes, subprocess.PIPE)
        self.feed = Feed(self.pub.process.stdin, every, RATE * span)
        self.more(RATE // 2)

    def start(self, name, arguments, routes, stdin=None):
        here = name == self.far
        command = [lib.TWOFOLD, name, "-i", self.world.key(name), self.uri[name], "field", *arguments]
        command += ["--routes", routes, "--stats"] if here else []
        program = lib.Program(self.lab.command("a" if here else "b", command), stdin=stdin, env=self.world.env,
                              cwd=self.world.folder)
        self.world.programs.append(program)
        return program

    @property
    def stream_path(self):
        return self.lab.paths[self.stream]

    @property
    def datagram_path(self):
        return self.lab.paths[1 - self.stream]

    @property
    def way(self):
        """The direction of the messages."""
        return "ab" if self.far == "pub" else "ba"

    def more(self, lines):
        """Until so many more lines were delivered."""
        self.sub.out.wait_lines(self.sub.out.lines + lines)

    def span(self, seconds):
        """Lets the job go on for a while: the length of a fault."""
        time.sleep(seconds)

    def carries_again(self, path):
        """Until messages flow over the path (P10: what healed is used again)."""
        key = self.way + ("_tcp_bytes" if path is self.stream_path else "_udp_bytes")
        before = path.stats()[key]
        while path.stats()[key] < before + CARRIED:
            assert self.feed.is_alive(), "the path was healed, but carried nothing any more"
            self.more(RATE // 10)

    def count(self, key):
        """How much a figure of the paths has grown since the job began, over both directions and all paths."""
        pairs = zip([path.stats() for path in self.lab.paths], self.before)
        return sum(now[way + key] - before[way + key] for now, before in pairs for way in ("ab_", "ba_"))

    def succeeds(self):
        """Ends the flow of lines; judges what was delivered, and how many packets that took."""
        lines = self.feed.stop()
        assert lines < self.feed.most, "the faults did not end"
        out, err = self.pub.ends(lib.OK)
        assert out == b"" and "twofold pub:" not in err, err
        self.sub.out.wait_lines(lines)
        self.sub.signal(lib.signal.SIGTERM)
        out, err = self.sub.ends(lib.INTERRUPTED)
        assert "twofold sub:" not in err, err
        activities = [json.loads(each) for each in out.splitlines()]
        assert [each["seq"] for each in activities] == list(range(1, lines + 1)), "a gap or a repeat"
        lib.same_lines(b"".join(each["body"].encode() + b"\n" for each in activities),
                       [line(number) for number in range(lines)], "the subscriber")
        self.was_calm(lines)

    def was_calm(self, lines):
        seconds = time.monotonic() - self.began
        udp, syns = self.count("udp"), self.count("syns")
        print(f"        {lines} lines in {seconds:.1f} s, {udp} datagrams, {syns} dials", flush=True)
        most = PACKETS_PER_MESSAGE * lines + PACKETS_PER_SECOND * seconds
        assert udp <= most, f"a storm: {udp} datagrams for {lines} messages in {seconds:.1f} s"
        assert not self.relay.events("session_failed"), self.relay.err.tail()

    def key_phases(self):
        """How often the datagram keys of the client in a were moved on, as it said at its end."""
        program = self.pub if self.far == "pub" else self.sub
        return int(re.findall(r"phase (\d+)", program.err.text())[-1])
