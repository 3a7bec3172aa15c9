"""What the stream sends after its path has healed: copies of what the datagrams have delivered meanwhile should not be
among it. Run by routes_run.py."""
import subprocess
import time

import routes_scenarios as plan

USUAL = 3   # seconds of the usual flow before the hole
AFTER = 5   # seconds after it
TICK = 0.1  # seconds between counts


def send_queue(lab):
    """Bytes that the kernel of namespace a holds for the relay's stream."""
    said = subprocess.run(lab.command("a", ["ss", "-Htn"]), check=True, capture_output=True, text=True).stdout
    return sum(int(line.split()[2]) for line in said.splitlines() if " 10.80.0.2:" in line)


def watch(lab, rate, size):
    """Hurts the stream's path while messages flow; the text of what was found."""
    path = lab.paths[0]
    began = time.monotonic()

    def at(when):
        time.sleep(max(0, began + when - time.monotonic()))
        return path.stats()["ab_tcp_bytes"]

    before = at(plan.FROM - USUAL)
    usual = (at(plan.FROM) - before) / USUAL
    path.set("hole 1")
    at(plan.TO)
    held = send_queue(lab)
    counts = [path.stats()["ab_tcp_bytes"]]
    path.set("hole 0")
    counts += [at(plan.TO + step * TICK) for step in range(1, int(AFTER / TICK) + 1)]
    back = next((step for step in range(1, len(counts)) if counts[step] - counts[step - 1] > usual * TICK / 2), len(counts))
    excess = counts[-1] - counts[0] - usual * (len(counts) - back) * TICK
    outage = rate * size * (plan.TO - plan.FROM)
    return (f"{plan.TO - plan.FROM} s hole of the stream at {rate * size / 1000:.0f} kB/s: it carries again within "
            f"{back * TICK:.1f} s of healing, and in {AFTER} s sent {excess / 1000:.1f} kB more than its flow since then of "
            f"{usual / 1000:.1f} kB/s: {100 * excess / outage:.1f} % of the outage's {outage / 1000:.0f} kB; the kernel held "
            f"{held / 1000:.1f} kB at healing")
