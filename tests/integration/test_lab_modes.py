"""twofold-lab --mode sim: the same file gives the same verdict in virtual time as between real programs, and the same
bytes from the same seed; and between namespaces. That the files of tests/harness/scenarios hold with forwarders is
proved by test_lab.py."""
# takes long
import concurrent.futures
import glob
import json
import os
import re

import lib

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SCENARIOS = os.path.join(ROOT, "tests", "harness", "scenarios")
LAB = os.path.abspath(os.path.join(os.environ.get("TF_BUILD", "build"), "tests/harness/twofold-lab"))
LONG_ONES = {"links-in-turn"}  # minutes; run by hand
AT_ONCE = 8
ZERO = ("lost", "repeated", "misordered", "altered", "unsent", "unacked", "refused")
DAY = """[scenario]
patience 20s
[nodes]
relay R
client A
client B direct
[traffic]
A -> orders rate 300/s for 2s
orders -> B
[route both]
delay 5ms
"""
# Each breaks something, in these modes; by how much may differ, but not what holds and what does not. (A link that is
# down for a while, as `cut` is in namespaces, ends no connection there.)
ALL = ("sim", "forwarders", "namespaces")
BROKEN = {
    "wrong count": (ALL, DAY + "[expect]\ndelivered < 600\nlost = 1\nsessions 2\n"),
    "hole": (ALL, DAY.replace("client A", "client A routes stream") +
             "[timeline]\nat 500ms for 1s stream blackhole\n"
             "[expect]\nlongest-gap < 500ms\nlongest-delay < 500ms\nsessions 2\n"),
    "one route": (ALL[:2], DAY.replace("client A", "client A routes stream") +
                  "[timeline]\nat 500ms for 200ms stream cut\n[expect]\nresumes = 0\nsessions 2\n"),
    "address that changes": (ALL, DAY + "[timeline]\nat 500ms rebind\nat 1s rebind A\n[expect]\ndelivered < 600\n"),
    # (Long after what it sends first: what is on its way when it is killed may be lost, or not.)
    "killed for good": (ALL, DAY.replace("for 2s", "for 1s\nA -> orders rate 300/s for 1s from 5s") +
                        "[timeline]\nat 4s kill A\n"),
    "relay killed for good": (ALL[:2], DAY + "[timeline]\nat 700ms kill R\n"),
}


def lab(world, *arguments):
    program = lib.Program([LAB, "--twofold", lib.TWOFOLD, *arguments], env={**world.env, "TMPDIR": world.folder})
    world.programs.append(program)
    return program


def simulated(world, *arguments):
    """Without a relay's program: nothing real is started."""
    return lab(world, "--twofold", world.path("not there"), "--mode", "sim", *arguments)


def told(program):
    """What it said, but for AddressSanitizer's remark on coroutines, which are announced to it."""
    return re.sub(r"==\d+==WARNING: ASan doesn't fully support makecontext/swapcontext .*\n", "", program.err.text())


def output(program):
    status = program.wait()
    assert status == lib.OK and told(program) == "", f"{status}: {told(program)}"
    return program.out.text()


def verdict(run):
    """What must be the same in all modes."""
    exact = {key: run["totals"][key] == 0 for key in ZERO}
    return run["held"], exact, sorted((each["line"], each["key"], each["relation"]) for each in run["broken"])


def days():
    names = sorted(os.path.splitext(os.path.basename(path))[0] for path in glob.glob(SCENARIOS + "/*.scenario"))
    assert len(names) > 15, names
    return names


def test_each_bad_day_ends_well_in_virtual_time(world):
    names = days()

    def wrong_with(name):
        program = simulated(world, "--json", os.path.join(SCENARIOS, name + ".scenario"))
        status = program.wait()
        if status != lib.OK or told(program) != "":
            return f"{name}: status {status}: {told(program)}"
        run = json.loads(program.out.text())
        messages = sum(flow["messages"] for flow in run["flows"])
        good = run["mode"] == "sim" and run["held"] and run["totals"]["delivered"] + run["totals"]["lost"] == messages
        return None if good else f"{name}: {run}"

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        wrong = [each for each in pool.map(wrong_with, names) if each is not None]
    assert not wrong, "\n".join(wrong)
    assert not glob.glob(world.path("twofold-lab-*")), "it has no folder"


def test_each_bad_day_ends_well_in_namespaces(world):
    first, *others = (name for name in days() if name not in LONG_ONES)

    def run(name):
        program = lab(world, "--mode", "namespaces", "--json", os.path.join(SCENARIOS, name + ".scenario"))
        return name, program.wait(), program.err.text() + str(re.findall('"broken.*', program.out.text()))

    ends = [run(first)]
    if ends[0][1] == lib.UNREACHABLE:
        raise lib.Skip(ends[0][2])
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        ends += pool.map(run, others)
    wrong = [each for each in ends if each[1] != lib.OK]
    assert not wrong, "\n".join(map(str, wrong))


# As many runs as there are days, on a machine that may have other things to do.
test_each_bad_day_ends_well_in_virtual_time.hang = 600
test_each_bad_day_ends_well_in_namespaces.hang = 600


def test_what_is_broken_is_broken_in_each_mode(world):
    runs = []
    for name, (modes, text) in BROKEN.items():
        path = world.write(name.replace(" ", "-") + ".scenario", text)
        runs.append((name, [(mode, lab(world, "--mode", mode, "--json", path)) for mode in modes]))
    for name, programs in runs:
        seen = {}
        for mode, program in programs:
            status = program.wait()
            if mode == "namespaces" and status == lib.UNREACHABLE:
                continue
            assert status == lib.NEGATIVE, f"{name}, {mode}: {status}: {told(program)}"
            seen[mode] = verdict(json.loads(program.out.text()))
        assert all(each == seen["sim"] for each in seen.values()), f"{name}: {seen}"
        assert seen["sim"][0] is False, name


def test_an_address_that_changes_in_namespaces_is_followed(world):
    program = lab(world, "--mode", "namespaces", "--json", "--keep", os.path.join(SCENARIOS, "new-address.scenario"))
    if program.wait() == lib.UNREACHABLE:
        raise lib.Skip(program.err.text().strip())
    assert json.loads(program.ends(lib.OK)[0])["held"]
    log, = glob.glob(world.path("twofold-lab-*/R.log"))
    with open(log, encoding="utf-8") as file:
        moved = re.findall(r"event=address_moved .*?from=(\S+):\d+ to=\1:\d+", file.read())
    assert len(set(moved)) == 2, moved  # A's address and B's, by other ports


def test_a_seed_gives_the_same_bytes_and_another_one_others(world):
    text = DAY + "[route datagram]\nloss 10%\njitter 3ms\n[timeline]\nat 1s for 300ms kill R\n"
    path = world.write("day.scenario", text)
    first, again, other = (output(simulated(world, "--json", *more, path)) for more in ([], [], ["--seed", "7"]))
    assert first == again and first != other, first
    written = world.write("seven.scenario", text.replace("[scenario]\n", "[scenario]\nseed 7\n"))
    assert output(simulated(world, "--json", written)) == other


def test_the_report_is_the_same_in_virtual_time(world):
    picture = world.path("day.svg")
    path = world.write("day.scenario",
                       DAY + "[timeline]\nat 500ms for 500ms stream blackhole\n[expect]\nrescues >= 1\n")
    out = output(simulated(world, "--json", "--svg", picture, "--compare", "stream", path))
    both, alone = (json.loads(line) for line in out.splitlines())
    assert (both["mode"], both["routes"], alone["mode"], alone["routes"]) == ("sim", "both", "sim", "stream")
    assert both["totals"]["delivered"] == alone["totals"]["delivered"] == 600
    assert alone["clients"][0]["datagram"]["first"] == 0 < alone["clients"][0]["stream"]["first"], alone
    assert both["totals"]["longest_gap_us"] < alone["totals"]["longest_gap_us"], (both, alone)
    assert os.path.getsize(picture) > 0
    assert "held: all" in output(simulated(world, path))


def test_what_is_no_seed_is_refused(world):
    path = world.write("day.scenario", DAY)
    for seed in ("", "-1", "x", "7x", "99999999999999999999"):
        simulated(world, "--seed", seed, path).ends(lib.USAGE)


lib.main(globals())
