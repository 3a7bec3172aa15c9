"""twofold-lab: the bad days of tests/harness/scenarios end well, and a day that does not end well is told as such. No
verdict depends on speed: the scenarios that run here expect no times."""
import concurrent.futures
import glob
import json
import os
import re
import signal
import subprocess
import xml.dom.minidom

import lib

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SCENARIOS = os.path.join(ROOT, "tests", "harness", "scenarios")
LAB = os.path.abspath(os.path.join(os.environ.get("TF_BUILD", "build"), "tests/harness/twofold-lab"))
LONG_ONES = {"links-in-turn"}  # minutes; run by hand
AT_ONCE = 8
SHORT = """[nodes]
relay R
client A
client B direct
[traffic]
A -> orders rate 300/s for 2s
orders -> B
[route both]
delay 5ms
[timeline]
at 300ms for 700ms stream blackhole
at 1300ms for 500ms datagram blackhole out
[expect]
rescues >= 1
"""


def manual():
    with open(os.path.join(ROOT, "deploy", "man", "twofold-lab.1"), encoding="utf-8") as file:
        return file.read().replace("\\-", "-")


def keys_of(value):
    """All keys of an object, of the objects in it, too; not the keys of a scenario."""
    if isinstance(value, list):
        return {key for each in value for key in keys_of(each)}
    if isinstance(value, dict):
        return set(value) | {key for name, each in value.items() if name != "totals" for key in keys_of(each)}
    return set()


def lab(world, *arguments):
    program = lib.Program([LAB, "--twofold", lib.TWOFOLD, *arguments], env={**world.env, "TMPDIR": world.folder})
    world.programs.append(program)
    return program


def scenario(world, text, name="day.scenario"):
    return world.write(name, text)


def leaves_nothing(world):
    left = [name for name in os.listdir(world.folder) if name.startswith("twofold-lab-")]
    assert not left, left


def test_each_bad_day_ends_well(world):
    names = sorted(os.path.splitext(os.path.basename(path))[0] for path in glob.glob(SCENARIOS + "/*.scenario"))
    assert len(names) > 15, names

    def run(name):
        return name, lab(world, "--json", os.path.join(SCENARIOS, name + ".scenario"))

    def wait(name):
        program = run(name)[1]
        return name, program.wait(), program.out.text(), program.err.text()

    wrong = []
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for name, status, out, err in pool.map(wait, [name for name in names if name not in LONG_ONES]):
            if status != lib.OK or err != "":
                wrong.append(f"{name}: status {status}: {err}{re.findall('.broken.*', out)}")
    assert not wrong, "\n".join(wrong)
    leaves_nothing(world)


test_each_bad_day_ends_well.hang = 600  # as many runs as there are days, on a machine that may have other things to do


def test_each_trap_has_something_that_shows_it(_world):
    there = {os.path.splitext(os.path.basename(path))[0] for path in glob.glob(SCENARIOS + "/*.scenario")}
    scenarios = set(there)
    for path in glob.glob(ROOT + "/tests/**/*.[chp]*", recursive=True):
        there |= {os.path.basename(path), os.path.splitext(os.path.basename(path))[0]}
        with open(path, encoding="utf-8") as file:
            there |= set(re.findall(r"^(?:START_TEST\(|def )(\w+)", file.read(), re.M))
    with open(os.path.join(SCENARIOS, "TRAPS.md"), encoding="utf-8") as file:
        rows = [line.split("|")[1:-1] for line in file if line.startswith("| ")]
    named = {name for row in rows for name in re.findall("`([^`]+)`", row[2])}
    unshown = [row[0] for row in rows if row[2].strip() != "shown by" and "`" not in row[2] and "cannot happen:" not in row[2]]
    assert len(rows) > 70 and not unshown, unshown
    assert named <= there, named - there
    assert scenarios <= named, scenarios - named


def test_what_a_run_tells_agrees_with_itself(world):
    picture = world.path("day.svg")
    out = lab(world, "--json", "--svg", picture, "--compare", "stream", scenario(world, SHORT)).succeeds()
    first, second = (json.loads(line) for line in out.splitlines())
    assert (first["routes"], second["routes"], first["mode"], first["v"]) == ("both", "stream", "forwarders", 1)
    for run in (first, second):
        assert run["held"] == (not run["broken"]) and run["totals"]["lost"] == run["totals"]["repeated"] == 0, run
        flow, = run["flows"]
        assert [flow[key] for key in ("from", "channel", "to", "messages", "delivered")] == ["A", "orders", "B", 600, 600]
        assert sum(phase["delivered"] for phase in run["phases"]) == 600, run["phases"]
        assert max(phase["gap_us"] for phase in run["phases"]) == run["totals"]["longest_gap_us"] == flow["gap_us"], run
        assert [phase["wrong"] for phase in run["phases"]][1::2] == ["stream blackhole", "datagram blackhole out"]
        assert run["phases"][0]["from_us"] == 0 and run["phases"][-1]["to_us"] == run["end_us"], run
    assert first["held"] and first["totals"]["rescues"] >= 1
    told = set(re.findall(r"[a-z0-9_]+", manual().split(".SH OUTPUT")[1].split(".SH")[0]))
    assert keys_of(first) <= told, keys_of(first) - told
    client = {each["name"]: each for each in second["clients"]}["A"]
    assert client["datagram"]["first"] == 0 < client["stream"]["first"], client
    document = xml.dom.minidom.parse(picture)
    shaded = [rect for rect in document.getElementsByTagName("rect") if rect.getAttribute("opacity")]
    assert len(shaded) >= 2 * 2 * 2, "two faults in two strips of two runs"  # B's strip of routes has none
    leaves_nothing(world)


def test_a_day_that_ends_badly_is_told(world):
    rows = [("at 700ms kill A", "unsent was to be = 0, and is "),
            ("at 700ms kill R", "unacked was to be = 0, and is "),
            ("at 700ms kill B", "lost was to be = 0, and is "),
            ("[expect]\ndelivered < 600", "delivered was to be < 600, and is 600")]
    text = SHORT.split("[timeline]")[0].replace("[nodes]", "[scenario]\npatience 1s\n[nodes]") + "[timeline]\n"
    programs = [lab(world, scenario(world, text + line + "\n", f"{number}.scenario"))
                for number, (line, _) in enumerate(rows)]
    for program, (line, words) in zip(programs, rows):
        out, _ = program.ends(lib.NEGATIVE)
        assert words in out.decode() and "broken: " in out.decode(), f"{line}: {out.decode()}"
    leaves_nothing(world)


def test_a_file_that_is_wrong_is_refused_with_its_lines(world):
    bad = SHORT.replace("rate 300/s", "rate fast").replace("blackhole out", "blackhole up") + "colour red\n"
    path = scenario(world, bad)
    for arguments in (["--check", path], [path]):
        _, err = lab(world, *arguments).ends(lib.BAD_CONFIG)
        assert re.findall(r"^%s:(\d+): " % re.escape(path), err, re.M) == ["6", "12", "15"], err
        assert "500/s" in err and "out (from it)" in err and "lost, repeated" in err, err
    assert lab(world, "--check", scenario(world, SHORT)).succeeds() == b""


def test_usage_is_refused(world):
    path = scenario(world, SHORT)
    for arguments in ([], [path, path], ["--mode", "magic", path], ["--routes", "tcp", path],
                      ["--compare", "both", path], ["--nonsense", path]):
        lab(world, *arguments).ends(lib.USAGE)
    lab(world, world.path("not there")).ends(lib.BAD_CONFIG)
    program = lib.Program([LAB, "--twofold", world.path("not there"), path], env={**world.env, "TMPDIR": world.folder})
    world.programs.append(program)
    _, err = program.ends(lib.UNREACHABLE)
    assert "does not start: " in err and "No such file" in err, err
    leaves_nothing(world)


def test_an_interrupted_run_leaves_no_process_and_no_file(world):
    program = lab(world, "--keep", scenario(world, SHORT.replace("for 2s", "for 60s")))
    folder = None
    while folder is None:  # until the relay has its store
        found = glob.glob(world.path("twofold-lab-*/relay/store"))
        folder = os.path.dirname(os.path.dirname(found[0])) if found else None
        assert program.is_running()
    program.signal(signal.SIGTERM)
    _, err = program.ends(lib.UNREACHABLE)
    assert "interrupted" in err and folder in err, err
    listed = subprocess.run(["ps", "-e", "-o", "args"], check=True, capture_output=True, text=True).stdout
    assert folder not in listed, listed
    assert {"A.log", "B.log", "R.log", "relay", "relay.conf"} <= set(os.listdir(folder)), os.listdir(folder)


def test_links_between_namespaces_carry_the_kernels_own_tcp_and_udp(world):
    program = lab(world, "--mode", "namespaces", "--json", scenario(world, SHORT.replace(
        "[timeline]", "[timeline]\nat 1050ms for 200ms stream cut\nat 100ms for 1s datagram mtu 1280")))
    if program.wait() == lib.UNREACHABLE:
        raise lib.Skip(program.err.text().strip())
    run = json.loads(program.succeeds())
    assert run["mode"] == "namespaces" and run["totals"]["delivered"] == 600 and run["totals"]["sessions"] == 2, run
    leaves_nothing(world)


def test_manual_says_what_the_program_does(world):
    text = manual()
    usage = lab(world, "--help").succeeds().decode()
    options = set(re.findall(r"(?<![\w-])--[a-z]+", usage))
    assert len(options) > 7 and options == set(re.findall(r"(?<![\w-])--[a-z]+", text)), options
    for code in re.findall(r"(\d) [a-z]", usage.split("exit status:")[1]):
        assert f"\n.B {code}\n" in text, code
    example = text.split(".SH EXAMPLE\n.nf\n")[1].split(".fi")[0]
    assert lab(world, "--check", scenario(world, example)).succeeds() == b""
    with open(os.path.join(ROOT, "tests", "harness", "README.md"), encoding="utf-8") as file:
        columns = [line for line in file if line.startswith("    ") and "--" not in line]
    both = [(line[4:41].rstrip(), line[41:].rstrip()) for line in columns]
    text = "\n".join(left for left, _ in both) + "\n" + "\n".join(right for _, right in both)
    assert lab(world, "--check", scenario(world, text)).succeeds() == b"", text


lib.main(globals())
