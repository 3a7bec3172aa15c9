"""What happens on the paths, and what it may cost.

A scenario is a list of steps: (seconds after the first message, path, command of tf-path, direction). Paths are named by
what they carry: "stream" or "datagram". Judgements compare with the run without faults; times are milliseconds."""
from dataclasses import dataclass, field

DELAY = 10  # milliseconds, one way
RTT = 2 * DELAY
FROM, TO = 4, 8  # of a hole
SECONDS = 13     # of a run
OTHER = {"stream": "datagram", "datagram": "stream"}


@dataclass
class Scenario:
    name: str
    steps: list = field(default_factory=list)
    judge: str = ""       # a key of JUDGES
    rebinds: bool = False
    peers: bool = False   # TCP and MPTCP run it, too: their first path is the stream's


def hole(path, way=""):
    return [(FROM, path, "hole 1", way), (TO, path, "hole 0", way)]


def always(path, command):
    return [(0, path, command, "")]


def flapping(path):
    steps = []
    for half in range(2 * 2 * (SECONDS - 5)):
        steps.append((2 + half / 4, path, f"hole {1 - half % 2}", ""))
    return steps


def scenarios():
    out = [Scenario("clean", judge="clean", peers=True)]
    for path in OTHER:
        out.append(Scenario(f"4 s hole, {path}", hole(path), "hole", peers=path == "stream"))
    for path in OTHER:
        for way in ("ab", "ba"):
            there = "of messages" if way == "ab" else "of acks"
            out.append(Scenario(f"4 s hole {there}, {path}", hole(path, way), "hole"))
    for path, judge in (("stream", "loss"), ("datagram", "tcp")):
        out.append(Scenario(f"4 s hole, {path}; 5 % loss, {OTHER[path]}", hole(path) + always(OTHER[path], "loss 5"), judge))
    for path in OTHER:
        out.append(Scenario(f"20 % loss, {path}", always(path, "loss 20"), "loss"))
    out.append(Scenario("5 % loss, both", always("stream", "loss 5") + always("datagram", "loss 5"), "loss", peers=True))
    for path in OTHER:
        squeeze = [(FROM, path, "rate 300", ""), (TO, path, "rate 0", "")]
        out.append(Scenario(f"300 kbit/s for 4 s, {path}", always(path, "queue 4000000") + squeeze, "squeeze"))
    for path in OTHER:
        out.append(Scenario(f"flapping 2 Hz, {path}", flapping(path), "hole"))
    for path in OTHER:
        out.append(Scenario(f"packets over 1280 lost, {path}", [(FROM, path, "mtu 1280", "")], "hole"))
    out.append(Scenario("NAT rebinds every second", rebinds=True, judge="hole"))
    return out


def at_most(what, figure, limit):
    return [] if figure <= limit else [f"{what} {figure:.1f} > {limit:.1f}"]


def judge_hole(row, clean):
    return (at_most("gap", row["gap"], clean["gap"] + 5) + at_most("p50", row["p50"], clean["p50"] + 0.5))


def judge_loss(row, _clean):
    return at_most("p99.9", row["p99.9"], 3 * RTT) + at_most("max", row["max"], 5 * RTT)


JUDGES = {
    "clean": ("p50 <= delay + 1", lambda row, clean: at_most("p50", row["p50"], DELAY + 1)),
    "hole": ("gap <= clean + 5, p50 as clean", judge_hole),
    "loss": (f"p99.9 <= {3 * RTT}, max <= {5 * RTT}", judge_loss),
    # What TCP itself takes to repair what it lost is not ours; this is what P3 promises.
    "tcp": (f"max <= {4 * RTT + 50}", lambda row, clean: at_most("max", row["max"], 4 * RTT + 50)),
    "squeeze": ("p99 <= 1.2 x clean", lambda row, clean: at_most("p99", row["p99"], 1.2 * clean["p99"])),
}


def verdict(scenario, row, clean):
    """The criterion as text, and what of it was missed (nothing: it was met)."""
    text, judge = JUDGES[scenario.judge]
    missed = judge(row, clean)
    for key in ("missing", "repeated"):
        missed += [f"{row[key]} {key}"] if row[key] else []
    return text, missed
