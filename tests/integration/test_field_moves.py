"""In the field laboratory: paths that flap, a NAT that forgets, and one beside the path who sends copies of datagrams
from elsewhere, sooner than they come themselves (P3, P9)."""
import os
import subprocess
import sys

import field_job
import lib

SECONDS = 10 if lib.LONG else 5
HALF = 0.25        # seconds; a path that flaps at 2 Hz is silent half of the time
DIALS = 8          # at once, beside one a second
ATTACKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "field_attacker.py")


def flap(job, path):
    before, dials = path.stats(), job.count("syns")
    for _ in range(int(SECONDS / HALF / 2)):
        path.set("hole 1")
        job.span(HALF)
        path.set("hole 0")
        job.span(HALF)
    job.more(field_job.RATE // 5)
    assert path.stats()["ab_holed"] > before["ab_holed"]
    dials = job.count("syns") - dials
    assert dials <= SECONDS + DIALS, f"{dials} dials in {SECONDS} s"


def test_paths_that_flap_cause_no_storm_of_dials(world):
    with field_job.laboratory() as lab:
        job = field_job.Job(world, lab)
        for path in (job.stream_path, job.datagram_path):
            flap(job, path)
            job.carries_again(path)
        job.succeeds()


def nat_forgets(world, routes):
    with field_job.laboratory(nat=True) as lab:
        job = field_job.Job(world, lab, routes=routes)
        for _ in range(SECONDS):
            lab.rebind()
            job.span(1)
            job.more(1)
        job.more(field_job.RATE // 5)
        assert len(job.relay.events("address_moved")) >= 2, job.relay.err.tail()
        job.succeeds()


def test_nat_that_forgets_every_second(world):
    nat_forgets(world, "both")


def test_nat_that_forgets_every_second_with_datagrams_alone(world):
    nat_forgets(world, "datagram")


def somebody_races_copies(world, routes):
    with field_job.laboratory(delay=50, paths=3) as lab:
        lab.paths[2].set("delay 1")
        job = field_job.Job(world, lab, routes=routes)
        attacker = subprocess.Popen(lab.command("a", [sys.executable, ATTACKER, "pa1", "pa2", "10.82.0.1", "10.81.0.2",
                                                      str(job.relay.port)]),
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            assert attacker.stdout.readline() == "ready\n"
            job.relay.err.wait_for("event=address_kept", 3)
            job.more(3 * field_job.RATE)
        finally:
            said = attacker.communicate()[0].split()
        assert not job.relay.events("address_moved"), job.relay.err.tail()
        job.succeeds()
        copied, passed = map(int, said)
        kept = len(job.relay.events("address_kept"))
        print(f"        {copied} copies, {passed} answers passed on, the address was kept {kept} times")
        assert copied >= kept and passed >= kept, "nobody attacked"


def test_one_who_races_copies_of_the_datagrams_wins_nothing(world):
    somebody_races_copies(world, "both")


def test_one_who_races_copies_of_datagrams_that_are_alone_wins_nothing(world):
    somebody_races_copies(world, "datagram")


field_job.skip_file()
lib.main(globals())
