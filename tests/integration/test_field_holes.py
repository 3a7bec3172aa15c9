"""In the field laboratory: one of two separate paths swallows everything, in both directions or in one, while messages
flow. The other carries on, and the path that healed is used again (P3, P10)."""
import field_job
import lib

SECONDS = 4.0 if lib.LONG else 1.2  # the length of a hole


def hole(job, path, ways):
    before = path.stats()
    for way in ways:
        path.set("hole 1", way)
    job.span(SECONDS)
    job.more(field_job.RATE // 2)
    for way in ways:
        path.set("hole 0", way)
    after = path.stats()
    assert all(after[way + "_holed"] > before[way + "_holed"] for way in ways), (ways, before, after)
    job.carries_again(path)


def each_path_falls_silent(world, stream, far):
    with field_job.laboratory() as lab:
        job = field_job.Job(world, lab, stream, far)
        for path in (job.stream_path, job.datagram_path):
            for ways in (["ab", "ba"], ["ab"], ["ba"]):
                hole(job, path, ways)
        job.succeeds()


def test_holes_on_the_way_of_a_publisher(world):
    each_path_falls_silent(world, 0, "pub")


def test_holes_on_the_way_of_a_subscriber(world):
    each_path_falls_silent(world, 1, "sub")


field_job.skip_file()
lib.main(globals())
