"""Our drop/retire protocol against its first implementation: the comms vat of @agoric/swingset-vat 0.33.0 and our node
in random programs, through a translator (agoric/README.md).

    test_agoric.py                                          what CI runs
    test_agoric.py --shape vnv --seeds 0..999 [--steps N]   more; a row of v (vat) and n (our node)
    test_agoric.py --shape vnv --seeds 7..7 --verbose       one, with all that was said
"""
# takes long
import argparse
import os
import sys
import traceback
from collections import Counter

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "agoric"))

import examples  # noqa: E402  (after the path)
import original  # noqa: E402
from ends import Process  # noqa: E402
from program import Program, build  # noqa: E402
from translator import Fault  # noqa: E402
from vat_end import Vats  # noqa: E402

STEPS = 150
SHAPES = {"vv": 15, "vn": 40, "nv": 40, "vnv": 80, "vnn": 40}  # how many seeds CI runs of each


class Runner:
    """The programs that worlds run on, begun when they are first needed, and again after a fault."""

    def __init__(self, node, folder, driver):
        self.commands = {"v": lambda: Vats(node, folder), "n": lambda: Process([driver])}
        self.vats, self.nodes = None, {}
        self.happened = Counter()

    def world(self, shape):
        if "v" in shape and self.vats is None:
            self.vats = self.commands["v"]()
        for place, kind in enumerate(shape):
            if kind == "n" and place not in self.nodes:
                self.nodes[place] = self.commands["n"]()
        return build(shape, self.vats, self.nodes)

    def end(self):
        """Each program must end well: ours is looked through for leaks when it does."""
        programs = [*self.nodes.values(), *([self.vats] if self.vats else [])]
        self.vats, self.nodes = None, {}
        statuses = [program.end() for program in programs]
        if any(statuses):
            raise Fault(f"exit statuses {statuses}")

    def run(self, shape, seed, steps, verbose):
        """Whether all went as it should."""
        world = self.world(shape)
        try:
            Program(world, seed).run(steps)
        except Exception:  # pylint: disable=broad-except  (whatever a seed brings up is its failure)
            print(world.replay() if verbose else "\n".join(world.log[-30:]))
            traceback.print_exc(file=sys.stdout)
            print(f"again: {sys.argv[0]} --shape {shape} --seeds {seed}..{seed} --steps {steps} --verbose")
            self.abandon()
            return False
        if verbose:
            print(world.replay())
        self.happened += world.happened
        return True

    def abandon(self):
        try:
            self.end()
        except Fault as fault:
            print(fault)


def run_shape(runner, shape, seeds, steps, verbose):
    before = runner.happened.copy()
    failed = [seed for seed in seeds if not runner.run(shape, seed, steps, verbose)]
    try:
        runner.end()
    except Fault as fault:
        print(f"{shape}: {fault}")
        failed.append("end")
    counts = ", ".join(f"{what} {number}" for what, number in sorted((runner.happened - before).items()))
    print(f"{'failed' if failed else 'ok':8} {shape}, seeds {seeds[0]}..{seeds[-1]}: {counts}", flush=True)
    if failed:
        print(f"         failed: {failed}")
    return not failed


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", help=f"one of {', '.join(SHAPES)}, or another row with vats at its ends only")
    parser.add_argument("--seeds", default="", metavar="A..B")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--verbose", action="store_true")
    return parser.parse_args()


def main():
    options = arguments()
    folder = os.environ.get("TF_BUILD")
    if not folder:
        print("TF_BUILD is not set: a build folder is needed", file=sys.stderr)
        return 2
    failures = examples.failures()
    for failure in failures:
        print(f"failed   example: {failure}")
    results = [not failures]
    try:
        node, modules = original.get(os.path.abspath(folder))
    except original.Missing as missing:
        print(missing)
        return 77 if all(results) else 1
    runner = Runner(node, modules, os.path.join(os.path.abspath(folder), "tests", "interop", "tf-refs-driver"))
    for shape, count in SHAPES.items() if options.shape is None else [(options.shape, SHAPES.get(options.shape, 30))]:
        first, _, last = options.seeds.partition("..")
        seeds = list(range(int(first), int(last) + 1)) if options.seeds else list(range(count))
        results.append(run_shape(runner, shape, seeds, options.steps, options.verbose))
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed, 0 skipped")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
