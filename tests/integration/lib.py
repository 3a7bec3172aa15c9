"""What the tests of the whole program share: temporary homes, relays, clients and forwarders that end with the test,
and waits that end with the event they wait for. Limits on waits (HANG) only end what hangs.

    def test_something(world):
        relay = world.relay()
        sub = world.sub(relay.uri, "c", "--from", "first", "-n", "1")
        world.pub(relay.uri, "c", "hello").succeeds()
        assert sub.succeeds() == b"hello\\n"

    lib.main(globals())
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

for name in ("TWOFOLD", "TF_FORWARDER", "TF_BUILD", "TF_RELEASE_BUILD"):  # programs are started in other folders
    if os.environ.get(name):
        os.environ[name] = os.path.abspath(os.environ[name])

import forwarder as forwarder_module

TWOFOLD = os.environ.get("TWOFOLD")
HANG = 180  # seconds a test may take; ends what hangs
LONG = bool(os.environ.get("TF_LONG"))      # the full lengths of outages
TIMING = bool(os.environ.get("TF_TIMING"))  # figures of time are asserted, not only printed

OK, NEGATIVE, USAGE, UNREACHABLE, REFUSED, TIMEOUT, DEGRADED, DAMAGED, BAD_CONFIG, INTERRUPTED = 0, 1, 2, 3, 4, 5, 6, 7, 8, 130


class Skip(Exception):
    """Raised by a test that cannot run here; the text says why."""


class Output:
    """What a program writes to one descriptor, as it comes."""

    def __init__(self, file):
        self.data = bytearray()
        self.lines = 0
        self.ended = False
        self.arrivals = []  # (monotonic time, lines that were there then)
        self.changed = threading.Condition()
        self.file = file
        self.thread = threading.Thread(target=self.read_all, daemon=True)
        self.thread.start()

    def read_all(self):
        while True:
            part = os.read(self.file.fileno(), 65536)
            now = time.monotonic()
            with self.changed:
                self.data += part
                self.lines += part.count(b"\n")
                self.arrivals.append((now, self.lines))
                self.ended = not part
                self.changed.notify_all()
            if not part:
                self.file.close()
                return

    def wait(self, condition, what):
        """Until condition() is true; AssertionError when the output ended without."""
        with self.changed:
            while not condition():
                assert not self.ended, f"the output ended without {what}; it was: {self.tail()}"
                self.changed.wait(HANG)

    def wait_for(self, text, count=1):
        """Until text is there, count times."""
        if isinstance(text, str):
            text = text.encode()
        self.wait(lambda: self.data.count(text) >= count, f"{text!r} ({count} times)")

    def wait_match(self, pattern):
        """Until a regular expression matches; the match."""
        expression = re.compile(pattern.encode())
        self.wait(lambda: expression.search(self.data), pattern)
        return expression.search(self.data)

    def wait_lines(self, count):
        self.wait(lambda: self.lines >= count, f"{count} lines ({self.lines} were there)")

    def wait_end(self):
        with self.changed:
            while not self.ended:
                self.changed.wait(HANG)
        return bytes(self.data)

    def tail(self):
        return self.data[-2000:].decode(errors="replace")

    def text(self):
        with self.changed:
            return self.data.decode(errors="replace")


class Program:
    """One process, killed with the test. Its outputs are read all the time, so it never waits for the reader."""

    def __init__(self, command, stdin=None, env=None, cwd=None, stdout=None):
        if isinstance(stdin, bytes):
            file = tempfile.TemporaryFile()
            file.write(stdin)
            file.seek(0)
            stdin = file
        self.command = command
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL if stdin is None else stdin,
                                        stdout=subprocess.PIPE if stdout is None else stdout,
                                        stderr=subprocess.PIPE, env=env, cwd=cwd)
        self.out = Output(self.process.stdout) if stdout is None else None
        self.err = Output(self.process.stderr)

    def wait(self):
        """Its exit status, with all output there."""
        status = self.process.wait()
        self.err.wait_end()
        if self.out is not None:
            self.out.wait_end()
        return status

    def ends(self, status):
        """Asserts the exit status; what it wrote to stdout and stderr."""
        got = self.wait()
        assert got == status, f"{self.shown()} ended with {got}, not {status}; stderr: {self.err.tail()}"
        return b"" if self.out is None else bytes(self.out.data), self.err.text()

    def succeeds(self):
        """Exit 0 and not a word on stderr; what it wrote to stdout."""
        out, err = self.ends(OK)
        assert err == "", f"{self.shown()} said: {err[:2000]}"
        return out

    def is_running(self):
        return self.process.poll() is None

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        if self.is_running():
            self.process.kill()
        self.process.wait()
        if self.process.stdin is not None:
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                pass

    def shown(self):
        return " ".join(["twofold" if part == TWOFOLD else part for part in self.command])[:300]


class Relay(Program):
    """A relay that is ready: its URI was printed."""

    def __init__(self, command, env):
        super().__init__(command, env=env)
        if not self.is_ready():
            raise AssertionError(f"{self.shown()} did not start, status {self.wait()}: {self.err.tail()}")
        self.uri = self.out.text().splitlines()[0]
        self.node, self.address = re.fullmatch(r"twofold://([a-z2-7]{52})@(\S+:\d+)", self.uri).groups()
        self.port = int(self.address.rsplit(":", 1)[1])

    def is_ready(self):
        with self.out.changed:
            while not self.out.lines and not self.out.ended:
                self.out.changed.wait(HANG)
            return self.out.lines > 0

    def uri_via(self, forwarder):
        return f"twofold://{self.node}@127.0.0.1:{forwarder.port}"

    def events(self, event):
        """The lines of its log with that event."""
        return [line for line in self.err.text().splitlines() if f" event={event} " in line + " "]


class World:
    """One test's files and processes."""

    keys = {}  # name -> (text of the identity, node id): made once for all tests of a file

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="twofold-test-")
        self.programs = []
        self.forwarders = []
        self.env = {name: value for name, value in os.environ.items()
                    if not name.startswith("XDG_") and name not in ("STATE_DIRECTORY", "JOURNAL_STREAM")}
        self.env.update(HOME=self.folder, LC_ALL="C.UTF-8")

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, data):
        with open(self.path(name), "wb") as file:
            file.write(data if isinstance(data, bytes) else data.encode())
        return self.path(name)

    def twofold(self, *arguments, stdin=None, env=None, cwd=None, stdout=None):
        program = Program([TWOFOLD, *arguments], stdin=stdin, env={**self.env, **(env or {})},
                          cwd=cwd or self.folder, stdout=stdout)
        self.programs.append(program)
        return program

    def key(self, name):
        """The path of an identity, made on first use."""
        path = self.path(name + ".key")
        if name not in World.keys:
            text = self.twofold("keygen").succeeds()
            World.keys[name] = (text, self.twofold("pubkey", stdin=text).succeeds().decode().strip())
        if not os.path.exists(path):
            os.chmod(self.write(name + ".key", World.keys[name][0]), 0o600)
        return path

    def id(self, name):
        self.key(name)
        return World.keys[name][1]

    def relay(self, *options, allow=("pub", "sub"), listen="127.0.0.1:0", data="relay"):
        if "-c" not in options:  # segments are written before they are used: many tests, much to write
            options = ("-c", self.write("segments.conf", "[store]\nsegment_size = 1MiB\n"), *options)
        command = [TWOFOLD, "relay", "--listen", listen, "--print-uri", "--data", self.path(data), *options]
        for name in allow:
            command += ["--allow", self.id(name)]
        relay = Relay(command, self.env)
        self.programs.append(relay)
        return relay

    def forwarder(self, relay, *options):
        forwarder = forwarder_module.Forwarder(relay.address, *options)
        self.forwarders.append(forwarder)
        return forwarder

    def pub(self, uri, channel, *arguments, key="pub", **more):
        return self.twofold("pub", "-i", self.key(key), uri, channel, *arguments, **more)

    def sub(self, uri, channel, *arguments, key="sub", **more):
        return self.twofold("sub", "-i", self.key(key), uri, channel, *arguments, **more)

    def close(self, failed):
        for program in self.programs:
            program.kill()
        if failed:
            for program in self.programs[-8:]:
                program.err.wait_end()
                print(f"    -- stderr of {program.shown()} (status {program.process.returncode})")
                print("".join(f"    | {line}\n" for line in program.err.tail().splitlines()[-25:]), end="")
        for forwarder in self.forwarders:
            forwarder.process.kill()
            forwarder.close()
        shutil.rmtree(self.folder)


def numbered_lines(count, size=128, seed=1):
    """Lines of size bytes without the newline, no two the same; the same seed gives the same lines."""
    state = seed
    lines = []
    for number in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        lines.append(b"%08d %016x " % (number, state) + b"." * (size - 26))
    return lines


def same_lines(got, lines, who):
    """Asserts that the output is exactly these lines, and says where the first difference is."""
    got = got.split(b"\n")
    assert got.pop() == b"", f"{who}: the last line is not whole"
    for at, (have, want) in enumerate(zip(got, lines)):
        assert have == want, f"{who}: line {at} is {have[:60]!r}, not {want[:60]!r}"
    assert len(got) == len(lines), f"{who}: {len(got)} lines, not {len(lines)}"


def longest_gap(output, first, last):
    """Seconds: the longest time in which no line came, between the arrival of line `first` and of line `last`."""
    gap, before = 0.0, None
    with output.changed:
        for when, lines in output.arrivals:
            if lines < first:
                continue
            if before is not None:
                gap = max(gap, when - before)
            if lines >= last:
                break
            before = when
    return gap


def check_rows(world, rows):
    """Runs (arguments, exit status, words that stderr must have) and tells all that is wrong, not only the first."""
    wrong = []
    programs = []
    for number, (arguments, status, *words) in enumerate(rows):
        programs += [world.twofold(*row[0]) for row in rows[len(programs):number + 4]]
        program = programs[number]
        got = program.wait()
        err = program.err.text()
        missing = [word for word in words if word not in err]
        if got != status or missing or (status == OK) != (err == ""):
            wrong.append(f"{' '.join(arguments)!r}: status {got} (not {status}), without {missing}: {err!r}")
        elif program.out.data and status != OK:
            wrong.append(f"{' '.join(arguments)!r}: stdout of something that failed: {program.out.tail()!r}")
        if "Sanitizer" in err or "runtime error" in err:
            wrong.append(f"{' '.join(arguments)!r}: {err}")
    assert not wrong, "\n".join(wrong)


def hang(_number, _frame):
    raise AssertionError(f"it did not end within {HANG} s")


def terminate(_number, _frame):
    sys.exit(1)


def run_one(name, test):
    """'ok', 'failed' or 'skipped'; prints the line."""
    world = World()
    failed = True
    started = time.monotonic()
    signal.alarm(getattr(test, "hang", HANG))  # a test that is long by its nature says so
    try:
        test(world)
        failed = False
        print(f"ok      {name} ({time.monotonic() - started:.1f} s)", flush=True)
        return "ok"
    except Skip as reason:
        failed = False
        print(f"skipped {name}: {reason}", flush=True)
        return "skipped"
    except Exception as error:  # pylint: disable=broad-except
        print(f"failed  {name}: {error}\n{traceback.format_exc()}", flush=True)
        return "failed"
    finally:
        signal.alarm(0)
        world.close(failed)


def main(names):
    """Runs the tests among names, or those whose names contain an argument of the command line."""
    for program, variable in ((TWOFOLD, "TWOFOLD"), (forwarder_module.BINARY, "TF_FORWARDER")):
        if not program or not os.path.exists(program):
            print(f"{variable} does not name the program")
            sys.exit(1)
    signal.signal(signal.SIGALRM, hang)
    signal.signal(signal.SIGTERM, terminate)
    tests = [(name, test) for name, test in names.items() if name.startswith("test_") and callable(test)
             and (len(sys.argv) < 2 or any(part in name for part in sys.argv[1:]))]
    results = [run_one(name, test) for name, test in tests]
    print(f"{results.count('ok')} passed, {results.count('failed')} failed, {results.count('skipped')} skipped")
    sys.exit(1 if "failed" in results else 0)
