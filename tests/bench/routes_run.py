"""tests/bench/routes: messages over two separate paths with faults (tests/integration/field.py), and what each waited
for, beside TCP and MPTCP in the same paths. Needs root. Medians over the runs; missing and repeated are sums; noise is how late a timer of the machine was meanwhile.

Every program runs with `chrt -f 10` where that is permitted, since a tail of the machine's other work says nothing."""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "integration"))
import field  # pylint: disable=wrong-import-position
import routes_heal  # pylint: disable=wrong-import-position
import routes_scenarios as plan  # pylint: disable=wrong-import-position

SIZE = 200
WINDOW = "256"   # the default of 32 sends in flight is less than 2000 a second need at 20 ms
WARM_UP = 1.0    # seconds whose latencies are left out
KEYS = ("p50", "p99", "p99.9", "max", "gap", "noise")
LIMIT = 90       # seconds; ends what hangs


class Bench:
    """The options, and the programs of a build."""

    def __init__(self, options):
        self.options = options
        self.build = os.path.abspath(options.build)
        os.environ["TF_BUILD"] = self.build
        self.twofold = os.path.join(self.build, "node/twofold")
        self.load = os.path.join(self.build, "tests/bench/tf-load")
        for program in (self.twofold, self.load, field.path_binary()):
            if not os.path.exists(program):
                sys.exit(f"routes: {program} is not built; build it (type Release), or name the build with --build")
        tried = subprocess.run(["chrt", "-f", "10", "true"], check=False, capture_output=True)
        self.prefix = ["chrt", "-f", "10"] if tried.returncode == 0 else []
        self.folder = tempfile.mkdtemp(prefix="twofold-routes-")


class Noise:
    """How late the machine is from begin() to the end."""

    def __init__(self, bench):
        self.process = subprocess.Popen([*bench.prefix, sys.executable, os.path.join(HERE, "routes_noise.py")],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def begin(self):
        self.process.stdin.write("begin\n")
        self.process.stdin.flush()

    def end(self):
        return float(self.process.communicate()[0])


class Steps(threading.Thread):
    """Hurts the paths on time, the stream's being path 0, and watches the machine meanwhile."""

    def __init__(self, scenario, lab, noise):
        super().__init__(daemon=True)
        self.scenario, self.lab, self.noise = scenario, lab, noise
        self.over = threading.Event()
        self.start()

    def run(self):
        began = time.monotonic()
        steps = [(at, lambda s=(path, command, way): self.lab.paths[list(plan.OTHER).index(s[0])].set(s[1], s[2]))
                 for at, path, command, way in self.scenario.steps]
        steps.append((WARM_UP, self.noise.begin))
        if self.scenario.rebinds:
            steps += [(at, self.lab.rebind) for at in range(2, plan.SECONDS - 1)]
        for at, step in sorted(steps, key=lambda each: each[0]):
            if self.over.wait(max(0, began + at - time.monotonic())):
                return
            step()

    def stop(self):
        self.over.set()
        self.join()


def samples(file):
    """(received, due) in nanoseconds, in the order of arrival."""
    with open(file, encoding="ascii") as lines:
        return [(int(parts[2]), int(parts[3])) for parts in map(str.split, lines)]


def figures(got, count):
    begin = min(due for _, due in got)
    counted = [(received, (received - due) / 1e6) for received, due in got if due >= begin + WARM_UP * 1e9]
    waits = sorted(wait for _, wait in counted)
    gap = max((later[0] - before[0]) / 1e6 for before, later in zip(counted, counted[1:]))
    at = lambda part: waits[min(len(waits) - 1, int(part * len(waits)))]
    return {"p50": at(0.5), "p99": at(0.99), "p99.9": at(0.999), "max": waits[-1], "gap": gap,
            "missing": count - len(got), "repeated": 0}


def late(got, limit):
    """Text: when messages came later than the limit, in ms, in clusters."""
    begin = min(due for _, due in got)
    clusters = []
    for received, due in sorted(got, key=lambda each: each[1]):
        wait = (received - due) / 1e6
        if wait <= limit:
            continue
        when = (due - begin) / 1e9
        if clusters and when - clusters[-1][1] < 0.05:
            clusters[-1] = (clusters[-1][0], when, clusters[-1][2] + 1, max(clusters[-1][3], wait))
        else:
            clusters.append((when, when, 1, wait))
    worst = sorted(clusters, key=lambda each: -each[3])[:6]
    return f"{len(clusters)} times later than {limit} ms; worst: " + ", ".join(
        f"{first:.3f} s: {number} of up to {most:.0f} ms" for first, _, number, most in worst)


class Programs:
    """A relay and a subscriber in namespace b, a publisher in a; killed at the end of the `with` block."""

    def __init__(self, bench, lab, rate, seconds):
        self.bench, self.lab, self.rate, self.count = bench, lab, rate, rate * seconds
        self.folder = tempfile.mkdtemp(dir=bench.folder)
        self.latencies, self.log = os.path.join(self.folder, "latencies"), os.path.join(self.folder, "log")
        self.running = []

    def __enter__(self):
        try:
            self.begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for program in self.running:
            program.kill()
            program.wait()

    def start(self, end, *command, **more):
        program = subprocess.Popen(self.lab.command(end, command), stdout=subprocess.PIPE, text=True, **more)
        self.running.append(program)
        return program

    def begin(self):
        bench = self.bench
        with open(self.log, "w", encoding="utf-8") as log:
            relay = self.start("b", bench.twofold, "relay", "--listen", "0.0.0.0:0", "--print-uri", "--accept", "any",
                               "--data", os.path.join(self.folder, "data"), "--max-in-flight", WINDOW, stderr=log)
        uri = relay.stdout.readline().strip()
        node, port = uri.split("//")[1].split("@")[0], uri.rsplit(":", 1)[1]
        ready = os.path.join(self.folder, "ready")
        self.sub = self.start("b", bench.load, "sub", f"twofold://{node}@127.0.0.1:{port}", "bench", "-n", str(self.count),
                              "-l", self.latencies, "-f", ready, "-t", str(LIMIT))
        wait_for_file(ready, self.sub)
        far = f"twofold://{node}@10.80.0.2:{port}?datagram=10.81.0.2:{port}"
        self.pub = self.start("a", bench.load, "pub", far, "bench", "-n", str(self.count), "-s", str(SIZE),
                              "-r", str(self.rate), "-w", WINDOW, "-t", str(LIMIT))

    def said(self):
        """What both clients reported at their end."""
        return [dict(line.split(" ", 1) for line in each.communicate(timeout=LIMIT)[0].splitlines())
                for each in (self.sub, self.pub)]


def wait_for_file(name, process):
    """Until a program has made the file."""
    while not os.path.exists(name):
        if process.poll() is not None:
            raise RuntimeError(f"it ended with {process.returncode}")
        time.sleep(0.01)


def twofold_run(bench, scenario, rate):
    """The figures of one run."""
    with field.Lab(delay=plan.DELAY, nat=scenario.rebinds, seed=time.time_ns() % 1000000, prefix=bench.prefix) as lab:
        noise = Noise(bench)
        with Programs(bench, lab, rate, plan.SECONDS) as programs:
            steps = Steps(scenario, lab, noise)
            sub, pub = programs.said()
            steps.stop()
        got = samples(programs.latencies)
        row = {**figures(got, programs.count), "repeated": int(float(sub["repeated"])), "noise": noise.end()}
        if bench.options.details:
            print(f"    {late(got, 2 * plan.RTT)}\n    {[path.stats() for path in lab.paths]}\n    pub: {pub}\n"
                  f"    log: {programs.log}")
        return row


def heal_run(bench, rate):
    with field.Lab(delay=plan.DELAY, prefix=bench.prefix) as lab:
        with Programs(bench, lab, rate, plan.TO + routes_heal.AFTER + 2):
            return routes_heal.watch(lab, rate, SIZE)


def peer_run(bench, kind, scenario, rate):
    count = rate * plan.SECONDS
    file = os.path.join(bench.folder, "peer")
    script = [sys.executable, os.path.join(HERE, "routes_peers.py")]
    with field.Lab(delay=plan.DELAY, seed=time.time_ns() % 1000000, prefix=bench.prefix) as lab:
        if kind == "mptcp":
            for end, more in (("a", ["10.81.0.1", "dev", "pa1", "subflow"]), ("b", ["10.81.0.2", "dev", "pb1", "signal"])):
                lab.ip(end, "mptcp", "limits", "set", "subflow", "2", "add_addr_accepted", "2")
                lab.ip(end, "mptcp", "endpoint", "add", *more)
        receiver = subprocess.Popen(lab.command("b", [*script, "recv", kind, "10.80.0.2", str(count), str(SIZE), file]),
                                    stdout=subprocess.PIPE, text=True)
        receiver.stdout.readline()
        sender = subprocess.Popen(lab.command("a", [*script, "send", kind, "10.80.0.2", str(count), str(SIZE), str(rate)]))
        noise = Noise(bench)
        steps = Steps(scenario, lab, noise)
        try:
            receiver.wait(timeout=LIMIT)
        finally:
            steps.stop()
            for process in (receiver, sender):
                process.kill()
                process.wait()
        got = samples(file)
        if bench.options.details:
            print(f"    {late(got, 2 * plan.RTT)}")
        return {**figures(got, count), "noise": noise.end()}


def medians(rows):
    out = {key: statistics.median(row[key] for row in rows) for key in KEYS}
    return {**out, **{key: sum(row[key] for row in rows) for key in ("missing", "repeated")}}


def show(name, row, text=""):
    cells = " ".join(f"{row[key]:8.1f}" for key in KEYS)
    print(f"{name:44s} {cells} {row['missing']:7d} {row['repeated']:8d}  {text}", flush=True)


def header(rate, runs):
    print(f"\n{rate} messages of {SIZE} bytes a second, {plan.SECONDS} s, RTT {plan.RTT} ms, {runs} runs; ms")
    print(f"{'':44s} " + " ".join(f"{key:>8s}" for key in KEYS) + " missing repeated  criterion")


def table(bench, rate):
    """All rows of one rate; how many missed their criterion."""
    options = bench.options
    wanted = [each for each in plan.scenarios() if not options.only or each.name == "clean"
              or any(part in each.name for part in options.only)]
    header(rate, options.runs)
    clean, missed_rows = None, 0
    for scenario in wanted:
        row = medians([twofold_run(bench, scenario, rate) for _ in range(options.runs)])
        clean = clean or row
        text, missed = plan.verdict(scenario, row, clean)
        missed_rows += bool(missed)
        said = f"{'; '.join(missed)} (noise {row['noise']:.1f})" if missed else "met"
        show(scenario.name, row, f"{text}: {said}")
    for kind in ("tcp", "mptcp") if options.peers else ():
        for scenario in wanted:
            if scenario.peers:
                show(f"{kind}: {scenario.name}", medians([peer_run(bench, kind, scenario, rate)
                                                          for _ in range(options.runs)]))
    return missed_rows


def main():
    parser = argparse.ArgumentParser(prog="routes", description=__doc__)
    parser.add_argument("--build", default=os.path.join(HERE, "../../build/gcc-release"), help="folder of a Release build")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rate", type=int, action="append", help="messages a second; again for more (500, 2000)")
    parser.add_argument("--only", action="append", metavar="TEXT", help="scenarios with this in their name, and clean")
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="without TCP and MPTCP")
    parser.add_argument("--details", action="store_true", help="of each run: what was late, and the counts of the paths")
    options = parser.parse_args()
    try:
        field.check(nat=True)
    except field.Unavailable as reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    bench = Bench(options)
    if not bench.prefix:
        print("without chrt -f 10, which is not permitted: tails are those of the machine")
    missed = sum(table(bench, rate) for rate in options.rate or (500, 2000))
    if not options.only:
        print("\n" + heal_run(bench, 500))
    print("SRT groups: left out, no library with bonding is here")
    print(f"{missed} rows missed their criterion")
    if not options.details:
        shutil.rmtree(bench.folder)


if __name__ == "__main__":
    main()
