"""With TF_LONG=1: ten minutes of datagrams alone, over a path that loses, jitters, and is silent now and then, with keys
that are moved on every 1000 packets; after a third of the time the path of the stream is dead for good (P2, P3)."""
import sys

import field_job
import lib

MINUTES = 10
HOLE = 2  # seconds, each minute
CONFIG = "[limits]\nkey_phase_packets = 1000\n"


def test_ten_minutes_of_datagrams_alone(world):
    with field_job.laboratory(seed=7) as lab:
        job = field_job.Job(world, lab, routes="datagram", config=CONFIG, span=90 * MINUTES)
        for fault in ("loss 3", "jitter 5", "repeat 1"):
            job.datagram_path.set(fault)
        for minute in range(MINUTES):
            job.span(60 - HOLE)
            job.datagram_path.set("hole 1")
            job.span(HOLE)
            job.datagram_path.set("hole 0")
            job.more(field_job.RATE)
            if minute == MINUTES // 3:
                job.stream_path.set("hole 1")
        job.succeeds()
        phases = job.key_phases()
        print(f"        {phases} key phases")
        assert phases >= 10


if not lib.LONG:
    print("skipped: it takes ten minutes; TF_LONG=1 runs it\n0 passed, 0 failed, 1 skipped")
    sys.exit(77)
lib.HANG = 900
field_job.skip_file()
lib.main(globals())
