"""What the scripts here share: programs of a build, servers that end with the run, what a process and what the rest of the
machine has used of the CPU. Standard library only."""
import os
import shutil
import signal
import statistics
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TICKS = os.sysconf("SC_CLK_TCK")
HANG = 120  # seconds; ends what hangs


class Failed(Exception):
    """A run that cannot be counted; the text says why."""


def build_folder():
    """The release build: $TF_BUILD, else the first of the usual places that has one."""
    places = [os.environ.get("TF_BUILD"), os.path.join(ROOT, "build", "gcc-release"), os.path.join(ROOT, "build")]
    for place in places:
        if place and os.path.exists(os.path.join(place, "tests", "bench", "tf-load")):
            return place
    raise SystemExit("there is no release build; make one with: cmake -S . -B build && cmake --build build\n"
                     "or name one in TF_BUILD")


def program(name):
    """A server by its name, also where only root's PATH has it; None: not installed."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def children_seconds():
    """CPU of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def machine_seconds():
    """CPU used by anything on this machine, stolen time not counted."""
    with open("/proc/stat", encoding="ascii") as file:
        fields = [int(field) for field in file.readline().split()[1:8]]
    user, nice, system, _idle, _iowait, irq, softirq = fields
    return (user + nice + system + irq + softirq) / TICKS


def wait_quiet(limit, below=0.1, span=0.4):
    """Until other work takes less than `below` of a core; at most `limit` seconds."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        before = machine_seconds()
        time.sleep(span)
        if (machine_seconds() - before) / span < below:
            return


def wait_until(condition, process, what):
    end = time.monotonic() + HANG
    while not condition():
        if process.poll() is not None or time.monotonic() > end:
            raise Failed(f"{what} did not start")
        time.sleep(0.01)


def figures(text):
    """`key value` lines as a dict of floats."""
    result = {}
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        try:
            result[key] = float(value)
        except ValueError:
            continue
    return result


class Server:
    """A server of one run in a folder of its own; ended, and its folder removed, by leaving `with`."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="tf-bench-")
        self.process = None

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def spawn(self, command, **options):
        with open(self.path("log"), "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log, **{"stdout": log, **options})

    def log(self):
        with open(self.path("log"), encoding="utf-8", errors="replace") as file:
            return file.read()[-500:].strip()

    def start(self):
        raise NotImplementedError


class Relay(Server):
    """twofold relay on a free port; .uri is its address."""

    def __init__(self, build, *options):
        super().__init__()
        self.command = [os.path.join(build, "node", "twofold"), "relay", "--listen", "127.0.0.1:0", "--data",
                        self.path("data"), "--accept", "any", "--print-uri", *options]
        self.uri = ""

    def start(self):
        self.spawn(self.command, stdout=subprocess.PIPE)
        self.uri = self.process.stdout.readline().decode().strip()
        if not self.uri:
            raise Failed(f"the relay did not start: {self.log()}")


def median(values):
    return statistics.median(values) if values else float("nan")


def number(value, digits=3):
    """Few digits, with k and M; - for what was not measured."""
    if value is None or value != value:
        return "-"
    for limit, unit in ((1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            return f"{value / (1e6 if unit == 'M' else 1e3):.{digits}g}{unit}" if value < limit * 1e3 else f"{value:.3g}"
    return f"{value:.{digits}g}" if abs(value) < 1000 else f"{value:.0f}"


def table(head, rows):
    """Lines of a table of strings, the first column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = []
    for row in [head, ["-" * width for width in widths], *rows]:
        cells = [cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths))]
        lines.append("| " + " | ".join(cells) + " |")
    return lines
