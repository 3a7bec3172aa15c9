"""What the scripts here share: programs of a build, servers that end with the run, what a process and what the rest of the
machine has used of the CPU. Standard library only."""
import os
import shutil
import signal
import socket
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


def tree_seconds(pid):
    """CPU of a process, of its children that have ended, and of those that have not."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    seconds = sum(int(field) for field in fields[11:15]) / TICKS
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        children = file.read().split()
    for child in children:
        try:
            seconds += tree_seconds(child)
        except OSError:
            continue  # it has ended in between
    return seconds


def wait_idle(pid, limit, span=0.25, quiet=4):
    """Until a process has done next to nothing for `quiet` spans. False: it was still at work after `limit` seconds."""
    end, still, before = time.monotonic() + limit, 0, tree_seconds(pid)
    while still < quiet:
        if time.monotonic() > end:
            return False
        time.sleep(span)
        now = tree_seconds(pid)
        still = still + 1 if now - before <= 0.04 * span else 0
        before = now
    return True


def resident_mib(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def written_bytes(pid):
    """What a process has had written to disks."""
    with open(f"/proc/{pid}/io", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("write_bytes"))


def filesystem(folder):
    return subprocess.run(["stat", "-f", "-c", "%T", folder], check=True, capture_output=True, text=True).stdout.strip()


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


def finish(process, what, hang=HANG):
    """What a load generator says, once it has ended well."""
    out, err = process.communicate(timeout=hang)
    if process.returncode != 0:
        raise Failed(f"{what} ended with {process.returncode}: {(err or out).decode()[-300:].strip()}")
    return figures(out.decode())


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class Server:
    """A server of one run in a folder of its own; ended, and its folder removed, by leaving `with`. A folder that is named
    is made, if it is missing, and stays."""
    patience = 10  # seconds that it has to end by itself

    def __init__(self, folder=None):
        self.stays = folder is not None
        self.folder = folder or tempfile.mkdtemp(prefix="tf-bench-")
        self.process = None
        os.makedirs(self.folder, exist_ok=True)

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
                self.process.wait(self.patience)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if not self.stays:
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


class Listening(Server):
    """A server that is ready once its port takes connections."""

    def __init__(self, folder=None):
        super().__init__(folder)
        self.port = free_port()

    def command(self):
        raise NotImplementedError

    def start(self):
        self.spawn(self.command())
        try:
            wait_until(self.is_ready, self.process, self.command()[0])
        except Failed as error:
            raise Failed(f"{error}: {self.log()}") from error

    def is_ready(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


class Relay(Server):
    """twofold relay on a free port; .uri is its address."""

    def __init__(self, build, *options, folder=None):
        super().__init__(folder)
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
