"""The common parts of the long trials of a cluster: their servers, and the checks at the end of each round. Trials are
no CTest tests, because they take minutes. scripts/explore.sh runs them with new seeds.

A trial has two groups of three replicas, which follow the stream of three NATS servers."""

import argparse
import contextlib
import itertools
import json
import os
import pathlib
import random
import shlex
import sys
import time

import history
import nats_server
import nodes
from live_load import PATIENCE_S, Questions, Writers
from live_world import KINDS, World
from stream_watch import StreamWatch

PARTS, REPLICAS, DIM = 2, 3, 32
NATS = ["nats-0", "nats-1", "nats-2"]
FLAGS = {
    "live.segment_bytes": "1MiB",
    "live.compact_at_bytes": "2MiB",
    "live.compact_after": "5s",
    "nats.replicas": 3,
    "nats.timeout": "2s",
}


def parser(description):
    """Returns a parser of the arguments that all trials take."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("programs", type=pathlib.Path)
    made.add_argument("--seed", type=int, default=int(os.environ.get("MAXSIM_TEST_SEED", "1")))
    made.add_argument("--json", action="store_true", help="print results as JSON, one object a line")
    return made


def tell(text):
    """Prints progress, beside the results on standard output."""
    print(text, file=sys.stderr, flush=True)


def report(arguments, line, values):
    """Prints a result: the line, or the values as JSON."""
    print(json.dumps(values) if arguments.json else line, flush=True)


def command(arguments, *more):
    """Returns the command that repeats a trial with the same seed. `more` are further arguments."""
    parts = [sys.executable, "-B", sys.argv[0], arguments.programs, "--seed", arguments.seed, *more]
    return " ".join(shlex.quote(str(part)) for part in parts)


@contextlib.contextmanager
def repeatable(arguments, *more):
    """If the with-statement fails, prints the command that repeats it."""
    try:
        yield
    except BaseException:
        tell(f"To repeat what failed: {command(arguments, *more)}")
        raise


@contextlib.contextmanager
def started(arguments, folder, net=None, routers=1, prepare=None):
    """Starts the servers of a trial and yields the Trial. `prepare` is called with the World before the servers start.
    At the end, checks that all servers stop properly. `net` is a wires.Switch with a namespace for each server
    (names_of_servers)."""
    names = nodes.names_of_nodes(PARTS, REPLICAS, routers)
    nats = nats_server.NatsCluster(folder / "nats", places=[net.place(name) for name in NATS] if net else None)
    name = random.Random(arguments.seed).choice(list(KINDS))
    world = World(
        arguments.programs,
        folder,
        arguments.seed,
        name,
        nats,
        PARTS,
        REPLICAS,
        FLAGS,
        DIM,
        net,
        places=[net.place(name) for name in names] if net else None,
        routers=routers,
        router_flags={"cluster.poll_interval": "1s"},  # the default, on which the time of reads depends
    )
    if prepare is not None:
        prepare(world)
    with world.started() as cluster, StreamWatch(cluster.replicas(), name) as watch:
        yield Trial(world, arguments.seed, watch)


def names_of_servers(routers=1):
    """Returns the names of all servers of a trial."""
    return [*nodes.names_of_nodes(PARTS, REPLICAS, routers), *NATS]


class Trial:
    """The servers of a trial, what was written to them, and what they must hold."""

    def __init__(self, world, seed, watch):
        self.world, self.watch = world, watch
        self.ledger = history.Ledger()
        self.known = history.History(self.ledger, world.oracle, world.numbers, PARTS)
        self.questions = Questions(world, self.ledger, seed)
        self.numbers = itertools.count(1)

    def writers(self, seed, rate, count, **options):
        return Writers(self.world, self.ledger, seed, rate, count, numbers=self.numbers, **options)

    def wait_recovered(self):
        """Waits until all replicas are ready and follow their stream."""
        self.world.cluster.wait_ready()
        for node in self.world.cluster.replicas():
            until = time.monotonic() + PATIENCE_S
            while problem := self.watch.problem(node):
                assert time.monotonic() < until, f"{node.name} takes no writes after {PATIENCE_S} s: {problem}"
                time.sleep(0.05)

    def check(self):
        """Checks that the stream has every acknowledged write, that all replicas agree with the stream, and that none
        has reported a fault of the stream. No client may write meanwhile."""
        self.world.check_writes(self.ledger, self.known)
        self.world.check_replicas(self.ledger, self.known, self.questions)
        self.watch.check()
