"""Restarts all replicas of a live collection, again and again: all at once, or one after another.

    rolling_restarts.py FOLDER_OF_THE_PROGRAMS [--rounds 40] [--seed S] [--json]

Six replicas of two groups follow one stream of three NATS servers. Each round restarts all replicas while clients
write: all at once or, in every other round, one by one in a random order. After each round every replica must be ready
and follow the stream, and none may have refused the stream. The stream must have every acknowledged write once. All
replicas must have reached the last message and hold the same documents. MAXSIM_TEST_SEED also sets the seed.
"""

import random
import time

import nodes
import tally
import trials

WRITERS, RATE = 6, 150  # documents a second


def restart(cluster, chooser, together):
    """Restarts all replicas: `together` or one by one. Returns the longest time from the start of a replica until the
    router reports it as ready."""
    replicas = cluster.replicas()
    if together:
        nodes.on_all(nodes.Node.stop, replicas)
        begin = time.monotonic()
        nodes.on_all(nodes.Node.start, replicas)
        cluster.wait_ready()
        return time.monotonic() - begin
    longest = 0
    for node in chooser.sample(replicas, len(replicas)):
        node.stop()
        begin = time.monotonic()
        node.start()
        cluster.wait_ready([node])
        longest = max(longest, time.monotonic() - begin)
    return longest


def run(trial, arguments):
    cluster, chooser = trial.world.cluster, random.Random(arguments.seed)
    trial.wait_recovered()
    calls, ready_s, begin = [], {"together": 0.0, "one by one": 0.0}, time.monotonic()
    for number in range(arguments.rounds):
        kind = "one by one" if number % 2 else "together"
        with trial.writers(1000 * arguments.seed + number, RATE, WRITERS) as writers:
            writers.wait_written()
            seconds = restart(cluster, chooser, kind == "together")
            ready_s[kind] = max(ready_s[kind], seconds)
            trial.wait_recovered()
            writers.wait_written()
        writers.expect_no_problem()
        trial.check()
        calls += writers.calls
        trials.tell(f"round {number + 1}, {kind}: ready in {seconds:.1f} s, {trial.known.last} messages")
    found = tally.summary(calls, begin, time.monotonic())
    seconds = time.monotonic() - begin
    trials.report(
        arguments,
        f"{arguments.rounds} rounds in {seconds:.0f} s, {trial.world.name}, seed {arguments.seed}: all replicas agree "
        f"on {found['items']} writes, failed calls by code {found['failed']}; longest until ready: "
        f"{ready_s['together']:.1f} s together, {ready_s['one by one']:.1f} s one by one; "
        f"{trial.watch.num_doubts} doubts of the stream",
        {
            "trial": "rolling_restarts",
            "seed": arguments.seed,
            "collection": trial.world.name,
            "rounds": arguments.rounds,
            "seconds": round(seconds, 1),
            "writes": found,
            "longest_ready_s": {kind: round(value, 2) for kind, value in ready_s.items()},
            "doubts": trial.watch.num_doubts,
        },
    )


def main():
    parser = trials.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    arguments = parser.parse_args()
    trials.tell(f"MAXSIM_TEST_SEED={arguments.seed}")
    with trials.repeatable(arguments, "--rounds", arguments.rounds), nodes.workspace("rolling-restarts") as folder:
        with trials.started(arguments, folder) as trial:
            run(trial, arguments)


if __name__ == "__main__":
    main()
