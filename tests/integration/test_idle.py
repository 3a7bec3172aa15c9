"""Connections that have nothing to say cost nothing but memory, and little of that (P9): many of them to a real relay."""
import os
import re
import time

import lib

CONNECTIONS = 50
WARM = 16  # connections before those that are measured: what is made once for all is there then
KEEPALIVE = 900  # seconds; none falls into the time that is watched
WATCHED = 3  # seconds
KIB_PER_CONNECTION = 64


def switches(pid):
    """How often any thread of a process was put on a CPU: no change, and it has done nothing at all."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/status", encoding="ascii") as file:
            total += sum(int(number) for number in re.findall(r"ctxt_switches:\s+(\d+)", file.read()))
    return total


def memory(pid):
    """RSS in KiB."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return int(re.search(r"^VmRSS:\s+(\d+)", file.read(), re.M).group(1))


def wait_silent(pids, seconds):
    """Until none of the processes has run for so long. Whoever never falls silent ends by the limit of the test."""
    before, since = None, time.monotonic()
    while time.monotonic() - since < seconds:
        now = [switches(pid) for pid in pids]
        if now != before:
            before, since = now, time.monotonic()
        time.sleep(0.1)  # this only looks; what is watched does not wait for it


def relay_of(world, build):
    """A relay with long keepalives, of a build."""
    config = world.write("relay.conf", f"[limits]\nkeepalive = {KEEPALIVE}s\n")
    relay = lib.Relay([os.path.join(build, "node", "twofold"), "relay", "-c", config, "--listen", "127.0.0.1:0",
                       "--print-uri", "--data", world.path("relay"), "--accept", "any"], world.env)
    world.programs.append(relay)
    return relay


def idle(world, build, relay, count, routes):
    """So many idle subscribers, when all of them stand."""
    ready = world.path(f"ready-{count}")
    command = [os.path.join(build, "tests", "bench", "tf-load"), "idle", relay.uri, "c", "-c", str(count), "-f", ready,
               "--routes", routes, "--keepalive", str(KEEPALIVE), "-t", str(lib.HANG), "--settle", str(lib.HANG)]
    read, write = os.pipe()
    program = lib.Program(command, stdin=read, env=world.env)
    os.close(read)
    world.programs.append(program)
    while not os.path.exists(ready):
        assert program.is_running(), f"{program.shown()} ended: {program.err.tail()}"
        time.sleep(0.05)  # a file tells that they stand
    return program, write


def test_idle_connections_are_silent_between_keepalives(world):
    build = os.environ["TF_BUILD"]
    relay = relay_of(world, build)
    subscribers, end = idle(world, build, relay, CONNECTIONS, "both")
    both = [relay.process.pid, subscribers.process.pid]
    wait_silent(both, WATCHED)
    world.pub(relay.uri, "c", "once").succeeds()  # and again after something was said to all of them
    wait_silent(both, WATCHED)
    assert relay.is_running() and subscribers.is_running()
    os.close(end)
    subscribers.ends(lib.OK)


def test_idle_connections_take_little_memory(world):
    build = os.environ.get("TF_RELEASE_BUILD", "")
    if not os.path.exists(os.path.join(build, "tests", "bench", "tf-load")):
        raise lib.Skip("TF_RELEASE_BUILD names no release build; memory of other builds is not that of the product")
    relay = relay_of(world, build)
    warm = idle(world, build, relay, WARM, "both")
    before = memory(relay.process.pid)
    measured = idle(world, build, relay, CONNECTIONS, "both")
    wait_silent([relay.process.pid], 1)
    each = (memory(relay.process.pid) - before) / CONNECTIONS
    print(f"        {each:.1f} KiB a connection")
    assert each <= KIB_PER_CONNECTION, f"{each:.1f} KiB a connection; {KIB_PER_CONNECTION} are the most"
    for program, write in (warm, measured):
        os.close(write)
        program.ends(lib.OK)


if __name__ == "__main__":
    lib.main(globals())
