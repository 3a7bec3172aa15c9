"""In the field laboratory: paths that lose at random, one that is squeezed, and one that swallows long packets from some
moment on (P2, P3). The seeds of the paths are fixed; TF_SEED changes them."""
import os

import field_job
import lib

SEED = int(os.environ.get("TF_SEED", "1"))
SECONDS = 10.0 if lib.LONG else 2.5


def test_loss_on_one_path_and_on_both(world):
    with field_job.laboratory(seed=SEED) as lab:
        job = field_job.Job(world, lab)
        for first, second in ((20, 0), (0, 20), (5, 5), (20, 20)):
            before = job.count("lost")
            lab.paths[0].set(f"loss {first}")
            lab.paths[1].set(f"loss {second}")
            job.span(SECONDS)
            job.more(1)
            assert job.count("lost") > before
        for path in lab.paths:
            path.set("loss 0")
        job.succeeds()


def test_hole_on_one_path_and_loss_on_the_other(world):
    with field_job.laboratory(seed=SEED) as lab:
        job = field_job.Job(world, lab)
        for silent, lossy in (lab.paths, lab.paths[::-1]):
            silent.set("hole 1")
            lossy.set("loss 5")
            job.span(SECONDS)
            job.more(field_job.RATE // 2)
            silent.set("hole 0")
            lossy.set("loss 0")
            job.carries_again(silent)
        job.succeeds()


def test_paths_that_jitter_repeat_and_lose(world):
    with field_job.laboratory(seed=SEED) as lab:
        for path in lab.paths:
            path.set("jitter 8")
            path.set("repeat 10")
            path.set("loss 2")
        job = field_job.Job(world, lab, far="sub")
        job.span(SECONDS)
        assert job.count("repeated") > 0 and job.count("lost") > 0
        job.succeeds()


def test_a_path_that_is_squeezed_holds_nothing_up(world):
    with field_job.laboratory(seed=SEED) as lab:
        job = field_job.Job(world, lab)
        for path in lab.paths:
            path.set("queue 1000000")
            path.set("rate 300")
            job.span(SECONDS)
            path.set("rate 0")
            job.more(field_job.RATE // 2)
        job.succeeds()


def test_long_packets_are_swallowed_from_some_moment_on(world):
    with field_job.laboratory(seed=SEED) as lab:
        job = field_job.Job(world, lab, every=0.05)  # so many lines at once that packets are full
        for path in (job.datagram_path, job.stream_path):
            path.set("mtu 1280")
            job.span(SECONDS)
            job.more(field_job.RATE // 2)
            assert path.stats()["ab_too_long"] > 0
            path.set("mtu 0")
        job.succeeds()


field_job.skip_file()
lib.main(globals())
