"""Many at once: connects that arrive within a second, from three processes, connections that say nothing, clients that lose
their relay together (P7, P9). All are served in the end, as fast as the CPU allows; a publisher and a subscriber beside them
lose nothing; memory is given back and the log does not grow with their number. TF_LONG=1: ten thousand, a thousand clients."""
import os
import time

import lib
from hostile import LOG_BUCKETS, LOG_BURST, LOG_LINES_MAX, LOG_SUMMARY, Hostile, Traffic, memory, need_descriptors
from test_idle import KIB_PER_CONNECTION, wait_silent

PROCESSES = 3
CONNECTS = 9999 if lib.LONG else 600  # of all processes together
IDLE = 9999 if lib.LONG else 300
CLIENTS = 1000 if lib.LONG else 120
KEEPALIVE = 900  # seconds; of those that say nothing
DESCRIPTORS_OF_CLIENT = 8


def release():
    """The folder of a build that costs what the product costs."""
    build = os.environ.get("TF_RELEASE_BUILD", "")
    if not os.path.exists(os.path.join(build, "tests", "harness", "tf-hostile")):
        raise lib.Skip("TF_RELEASE_BUILD names no release build; thousands of handshakes take too long in others")
    return build


def relay_of(world, build, *options, limits=""):
    config = world.write("relay.conf", f"[store]\nsegment_size = 1MiB\n[limits]\n{limits}\n")
    relay = lib.Relay([os.path.join(build, "node", "twofold"), "relay", "-c", config, "--print-uri", "--data",
                       world.path("relay"), "--accept", "any", *options], world.env)
    world.programs.append(relay)
    return relay


def crowd(world, build, relay, traffic, peers, *options):
    """Processes with so many peers together, which all begin in the same second; when all of them have been served, with the
    traffic beside them."""
    processes = [Hostile(world, "hold", relay.uri, "--peers", str(peers // PROCESSES), *options, build=build)
                 for _ in range(PROCESSES)]
    traffic.send()
    before, began = traffic.sub.out.lines, time.monotonic()
    for process in processes:
        process.go()
    while not all(process.was_served() for process in processes):
        traffic.send()
    gap = lib.longest_gap(traffic.sub.out, before, traffic.sub.out.lines)
    print(f"        {peers} were served in {time.monotonic() - began:.1f} s; the subscriber waited {gap:.2f} s at most")
    return processes


def few_lines(relay, lines, began):
    """Each LOG_SUMMARY anew, a bounded number of peers has lines of its own, and the others share theirs."""
    spans = 1 + int((time.monotonic() - began) / LOG_SUMMARY)
    most = spans * (2 * LOG_BUCKETS + 20 * LOG_BURST)  # and as many summaries
    assert relay.err.lines - lines <= most, f"{relay.err.lines - lines} lines; {most} are the most"


def wait_memory(relay, most):
    """Until it holds no more than so many KiB."""
    while (now := memory(relay)) > most:
        time.sleep(0.1)  # nobody tells; what never comes ends by the limit of the test
    return now


def test_connects_that_arrive_in_one_second_are_all_served(world):
    build = release()
    need_descriptors(CONNECTS + 2000)
    relay = relay_of(world, build, "--listen", "127.0.0.1:0")
    traffic = Traffic(world, relay)
    traffic.send(10)
    lines, base, began = relay.err.lines, memory(relay), time.monotonic()
    for _ in range(2):  # the second finds what the first has left
        processes = crowd(world, build, relay, traffic, CONNECTS)
        peak = memory(relay)
        counts = [process.counts() for process in processes]
        assert sum(each["up"] for each in counts) == CONNECTS, counts
        assert sum(each["closed"] + each["lost"] for each in counts) == 0, counts
        for process in processes:
            process.leaves()
        print(f"        after {sum(each['dials'] for each in counts)} dials; {base} KiB before, {peak} with them")
    now = wait_memory(relay, base + (peak - base) // 2)
    print(f"        {now} KiB after them")
    few_lines(relay, lines, began)
    traffic.ends_well()


test_connects_that_arrive_in_one_second_are_all_served.hang = 600 if lib.LONG else lib.HANG


def test_idle_connections_cost_nothing_and_little_memory(world):
    build = release()
    need_descriptors(IDLE + 2000)
    relay = relay_of(world, build, "--listen", "127.0.0.1:0", limits=f"keepalive = {KEEPALIVE}s")
    traffic = Traffic(world, relay)
    traffic.send(10)
    lines, base, began = relay.err.lines, memory(relay), time.monotonic()
    processes = crowd(world, build, relay, traffic, IDLE, "--keepalive", str(KEEPALIVE))
    each = (memory(relay) - base) / IDLE
    traffic.send(100)
    traffic.ends_well()
    wait_silent([relay.process.pid], 2)
    counts = [process.counts() for process in processes]
    assert sum(one["up"] for one in counts) == IDLE and not any(one["lost"] for one in counts), counts
    for process in processes:
        process.leaves()
    few_lines(relay, lines, began)
    print(f"        {each:.1f} KiB a connection")
    assert each <= KIB_PER_CONNECTION, f"{each:.1f} KiB a connection; {KIB_PER_CONNECTION} are the most"


test_idle_connections_cost_nothing_and_little_memory.hang = 600 if lib.LONG else lib.HANG


def test_clients_that_lose_their_relay_together_all_come_back(world):
    build = release()
    need_descriptors(CLIENTS * DESCRIPTORS_OF_CLIENT)
    relay = relay_of(world, build, "--listen", "127.0.0.1:0")
    traffic = Traffic(world, relay)
    traffic.send(10)
    clients = Hostile(world, "clients", relay.uri, "--peers", str(CLIENTS), "--channel", "quiet", build=build)
    clients.wait_served()
    for times in range(2):
        relay.kill()
        began = time.monotonic()
        relay = relay_of(world, build, "--listen", relay.address)
        clients.wait_served(2 + times)
        print(f"        {CLIENTS} were back in {time.monotonic() - began:.1f} s")
        traffic.send(10)
        few_lines(relay, 0, began)
    clients.leaves()
    traffic.ends_well()


if __name__ == "__main__":
    lib.main(globals())
