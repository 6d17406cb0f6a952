"""Makes random writes, reads, compactions, snapshots, restarts and kills of a live collection. After each operation the
server must give the oracle's answers, with the same bits as a newly built collection.

    model_test.py FOLDER_OF_THE_PROGRAMS [--seconds 60 | --minutes N] [--seed S] [--operations 60] [--replay FILE]

A sequence of operations that fails is shortened, and printed as a script that repeats it. The seed is printed.
MAXSIM_TEST_SEED and MAXSIM_LIVE_SECONDS also set seed and duration. The folder may hold programs of any build.
"""

import argparse
import json
import os
import pathlib
import sys
import tempfile
import time
import traceback

import operations as op
from world import World


def run(programs, setup, operations):
    """Returns why the sequence fails, or "", and the number of completed operations."""
    done = 0
    with tempfile.TemporaryDirectory(prefix="maxsim-live-") as folder:
        with World(programs, folder, setup) as world:
            try:
                world.begin()
                world.check(1)
                for operation in operations:
                    done += 1
                    world.apply(operation)
                world.apply({"op": "fresh", "check": 5})
                world.server.stop()
            except Exception as error:  # pylint: disable=broad-except  any error: the sequence is then shortened
                operation = json.dumps(operations[done - 1], ensure_ascii=False)[:300] if done else "begin"
                where = "" if isinstance(error, AssertionError) else traceback.format_exc()
                return f"operation {done}, {operation}: {error}\n{where}\n{world.server.log_end(1500)}", done
    return "", done


def report(programs, setup, operations, problem, seed, shrink_seconds):
    print(f"FAILED with seed {seed}: {problem}", flush=True)
    print(f"shortening {len(operations)} operations for {shrink_seconds:.0f} s at most", flush=True)
    shorter = op.shrink(operations, lambda some: bool(run(programs, setup, some)[0]), shrink_seconds)
    problem, _ = run(programs, setup, shorter)
    print(f"{len(shorter)} operations fail with: {problem or 'nothing, the failure does not come each time'}")
    lines = ",\n  ".join(json.dumps(one) for one in shorter)
    print("To run it again:\n")
    print("cat > live-failure.json <<'END'")
    print(f'{{"setup": {json.dumps(setup)},\n "operations": [\n  {lines}\n]}}')
    print("END")
    print(f"{sys.executable} -B {pathlib.Path(__file__).resolve()} {programs} --replay live-failure.json", flush=True)


def replay(programs, path):
    recorded = json.loads(path.read_text())
    problem, _ = run(programs, recorded["setup"], recorded["operations"])
    print(problem or "it does not fail")
    return 1 if problem else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("MAXSIM_LIVE_SECONDS", 60)))
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("MAXSIM_TEST_SEED", "1")))
    parser.add_argument("--operations", type=int, default=60, help="of a sequence, at most")
    parser.add_argument("--shrink-seconds", type=float, default=120)
    parser.add_argument("--replay", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.replay:
        sys.exit(replay(arguments.programs, arguments.replay))
    seconds = 60 * arguments.minutes if arguments.minutes else arguments.seconds
    until = time.monotonic() + seconds
    seed, sequences, done = arguments.seed, 0, 0
    print(f"MAXSIM_TEST_SEED={seed}", flush=True)
    while sequences == 0 or time.monotonic() < until:
        setup = op.setup_of(seed + sequences)
        generator = op.Generator(seed + sequences, setup["id_type"])
        operations = [generator.next() for _ in range(arguments.operations)]
        problem, count = run(arguments.programs, setup, operations)
        done += count
        if problem:
            report(arguments.programs, setup, operations[:count], problem, seed + sequences, arguments.shrink_seconds)
            sys.exit(1)
        sequences += 1
    print(f"{sequences} sequences, {done} operations, {seconds:.0f} s asked for")


if __name__ == "__main__":
    main()
