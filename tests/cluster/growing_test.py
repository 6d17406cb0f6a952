"""A live collection grows from two groups of servers to three and shrinks to two again, while clients write and read.

    growing_test.py FOLDER_OF_THE_PROGRAMS [--rate 200] [--writes 300] [--deadline 20] [--seed S]

Each group has two servers, and NATS JetStream orders the writes. `maxsimctl cluster rebalance` moves slots between
groups. Its first run is killed at a step that depends on the seed, and a second run of the same command must complete
the work. Meanwhile clients upsert and delete through the router, search the whole collection, rank lists, and read
documents. At least --writes writes are acknowledged before, between and after the moves each.

No read may fail. Every acknowledged write must be in the stream exactly once, with the acknowledged outcome. For every
answer there must be one sequence per group at which an oracle held the answer's documents. The scores must equal those
of a single server that follows the stream. At the end each server must hold the documents of its slots and no others.
Prints the longest pause between two acknowledgements, and the longest read.
"""

import argparse
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import time

import corpus
import history
import nats_server
import nodes
import server as client
import tally
from background import Askers
from live_load import Questions, Writers
from live_world import KINDS, World

GROUPS, OWNERS, REPLICAS = 3, 2, 2
# The slots are compared in sixths: with two groups or with three, each sixth is in one group.
PARTS = 6
FLAGS = {**client.COMPACTS_OFTEN, "nats.replicas": 1}
STEP = re.compile(r"step (\d+): ")
KILLED_AT = range(3, 13)  # of the 13 steps from two groups to three


class GrowingWorld(World):
    """The servers of the first two groups start with one half of the collection each, those of the third group with
    nothing. The servers' configurations do not list the collection, because listed collections could not be replaced.
    """

    def __init__(self, programs, folder, seed, name):
        nats = nats_server.NatsServer(folder / "nats")
        options = {"has_whole": True, "empty_groups": GROUPS - OWNERS}
        super().__init__(programs, folder, seed, name, nats, OWNERS, REPLICAS, FLAGS, **options)
        for node in self.cluster.replicas():
            node.collections = {}
            node.flags.pop("cluster.partition")
            node.flags["store.allowed_roots"] = node.folder

    def load(self):
        """Loads the halves on the servers of the first groups."""
        for group in self.owners:
            for node in group:
                path = node.folder / self.name
                node.load(self.name, path, live=True)
                node.collections = {self.name: path}
        self.cluster.wait_ready()


class Tool:
    """Runs `maxsimctl cluster` on the router."""

    def __init__(self, world):
        self.name, self.cluster = world.name, world.cluster

    def rebalance(self, count):
        """Runs the program that gives the first `count` groups equal ranges of slots. Returns its output."""
        return self.cluster.control(*self._rebalance(count)).strip()

    def rebalance_and_kill(self, count, number):
        """Starts giving the first `count` groups equal ranges of slots, and kills the program when it begins step
        `number`."""
        command = self.cluster.control_command(*self._rebalance(count))
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            said = []
            for line in process.stderr:
                said.append(line)
                step = STEP.match(line)
                if step and int(step[1]) >= number:
                    process.kill()
                    break
            else:
                raise AssertionError(f"{' '.join(command)} ended before step {number}: {''.join(said)}")

    def _rebalance(self, count):
        groups = ",".join(f"g{index}" for index in range(count))
        # The router polls four times in a second.
        return ["cluster", "rebalance", self.name, "--groups", groups, "--grace", "1"]

    def check_layout(self, count):
        """Checks that the first `count` groups own equal ranges of slots, and that their servers hold exactly these
        ranges."""
        layout = json.loads(self.cluster.control("cluster", "layout", self.name, "--json"))
        borders = [index * corpus.NUM_SLOTS // count for index in range(count + 1)]
        ranges = [{"first_slot": first, "end_slot": end} for first, end in zip(borders, borders[1:])]
        owners = [{"group": f"g{index}", "slots": slots} for index, slots in enumerate(ranges)]
        assert layout["owners"] == owners, f"the owners are {layout['owners']}"
        held = [[one.get("slots") for one in group["replicas"]] for group in layout["groups"]]
        wanted = [[slots] * REPLICAS for slots in ranges] + [[None] * REPLICAS] * (GROUPS - count)
        assert held == wanted, f"the servers hold {held} instead of {wanted}"


def grow_and_shrink(world, writers, askers, arguments):
    tool, chooser = Tool(world), random.Random(arguments.seed)

    def phase(what, action):
        askers.event = what
        print(what, flush=True)
        result = action()
        if result:
            print(result, flush=True)
        askers.expect_no_problem()

    def write():
        phase(f"write {arguments.writes} times", lambda: writers.wait_written(arguments.writes))

    write()
    number = chooser.choice(KILLED_AT)
    phase(f"grow, killed at step {number}", lambda: tool.rebalance_and_kill(GROUPS, number))
    phase("grow", lambda: tool.rebalance(GROUPS))
    tool.check_layout(GROUPS)
    write()
    phase("shrink", lambda: tool.rebalance(OWNERS))
    tool.check_layout(OWNERS)
    write()


def report(askers, questions, known, written):
    print(f"{known.last} messages; {dict(questions.counts)}; reads: {askers.summary()}")
    print(tally.line("writes", written))
    if len(askers.times) < 100:
        sys.exit("too little was asked for this to mean something")


def run(world, arguments):
    ledger = history.Ledger()
    with world.started() as cluster:
        world.load()
        known = history.History(ledger, world.oracle, world.numbers, PARTS)
        questions = Questions(world, ledger, arguments.seed)
        writers = Writers(world, ledger, arguments.seed, arguments.rate, arguments.writers)
        askers = Askers(cluster.router, questions, arguments.clients, arguments.deadline, rest_s=0.02)
        begin = time.monotonic()
        with askers, writers:
            grow_and_shrink(world, writers, askers, arguments)
        written = tally.summary(writers.calls, begin, time.monotonic())
        writers.expect_no_problem()
        askers.expect_no_problem()
        world.check_writes(ledger, known)
        questions.check(known, questions.answers)
        world.check_the_end(ledger, known, questions)
    report(askers, questions, known, written)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--rate", type=float, default=200, help="documents a second that are written")
    parser.add_argument("--writes", type=int, default=300, help="writes before, between and after the moves")
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--deadline", type=float, default=20, help="seconds that a read has")
    parser.add_argument("--collection", choices=list(KINDS))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("MAXSIM_TEST_SEED", "1")))
    arguments = parser.parse_args()
    name = arguments.collection or random.Random(arguments.seed).choice(list(KINDS))
    print(f"MAXSIM_TEST_SEED={arguments.seed}, {name}", flush=True)
    with nodes.workspace("growing") as folder:
        run(GrowingWorld(arguments.programs, folder, arguments.seed, name), arguments)


if __name__ == "__main__":
    main()
