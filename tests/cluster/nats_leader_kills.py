"""Kills the NATS server that leads a live collection's stream, again and again, while clients write.

    nats_leader_kills.py FOLDER_OF_THE_PROGRAMS [--kills 40] [--rate 200] [--seed S] [--json]

Six replicas of two groups follow one stream with a copy on each of three NATS servers. The server that leads the stream
is killed by SIGKILL, and restarted up to 3 s later. Each time, writes must succeed again. No replica may report that
the stream lost messages, ends too early or was replaced: not in its log, its GetInfo or its metrics. A message that
adds "unless NATS is still recovering" is no failure, but is counted as a doubt. At the end the stream must have every
acknowledged write once, and all replicas must hold the same documents. Prints the longest pause between two
acknowledgements. MAXSIM_TEST_SEED also sets the seed.
"""

import random
import time

import nodes
import tally
import trials

WRITERS, CHECK_EVERY = 8, 10  # kills


def kill_leader(trial, writers, chooser):
    """Kills the leader of the stream, and waits until writes succeed again. Returns the leader's name and the longest
    pause."""
    world = trial.world
    writers.wait_written()
    leader = world.nats.leader_of(world.stream)
    begin = time.monotonic()
    leader.kill()
    time.sleep(chooser.uniform(0, 3))
    leader.start()
    writers.wait_written(since=begin)
    end = time.monotonic()
    taken = [call_end for _, call_end, code, _ in list(writers.calls) if code == 0]
    return leader.folder.name, tally.longest_pause(taken, begin, end)


def run(trial, arguments):
    chooser, pauses, begin = random.Random(arguments.seed), [], time.monotonic()
    trial.wait_recovered()
    with trial.writers(arguments.seed, arguments.rate, WRITERS) as writers:
        for number in range(1, arguments.kills + 1):
            leader, pause = kill_leader(trial, writers, chooser)
            pauses.append(pause)
            trials.tell(f"kill {number}, {leader}: writes paused for {pause:.1f} s")
            if number % CHECK_EVERY == 0:
                trial.world.check_writes(trial.ledger, trial.known)
            trial.watch.check()
            time.sleep(chooser.uniform(0, 2))
        trial.wait_recovered()
        writers.wait_written()
    writers.expect_no_problem()
    trial.check()
    end = time.monotonic()
    found, seconds = tally.summary(writers.calls, begin, end), end - begin
    trials.report(
        arguments,
        f"{arguments.kills} kills in {seconds:.0f} s, {trial.world.name}, seed {arguments.seed}: no false alarm, "
        f"{trial.watch.num_doubts} doubts; {tally.line('writes', found)}; pause after a kill: median "
        f"{tally.percentile(pauses, 0.5):.1f} s, longest {max(pauses, default=0):.1f} s",
        {
            "trial": "nats_leader_kills",
            "seed": arguments.seed,
            "collection": trial.world.name,
            "kills": arguments.kills,
            "seconds": round(seconds, 1),
            "writes": found,
            "pauses_s": [round(one, 2) for one in pauses],
            "doubts": trial.watch.num_doubts,
        },
    )


def main():
    parser = trials.parser(__doc__)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--rate", type=float, default=200, help="documents a second that are written")
    arguments = parser.parse_args()
    trials.tell(f"MAXSIM_TEST_SEED={arguments.seed}")
    with trials.repeatable(arguments, "--kills", arguments.kills, "--rate", arguments.rate):
        with nodes.workspace("nats-leader-kills") as folder, trials.started(arguments, folder) as trial:
            run(trial, arguments)


if __name__ == "__main__":
    main()
