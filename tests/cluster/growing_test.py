"""A live collection grows from two groups of servers to three, and shrinks to two again, while it is written and read.

    growing_test.py FOLDER_OF_THE_PROGRAMS [--rate 200] [--writes 300] [--deadline 20] [--seed S]

Each group has two servers, and NATS JetStream orders the writes. `maxsimctl cluster rebalance` moves the slots. Its first
run is killed at a step that the seed chooses, and the same command goes on. Meanwhile writers send upserts and deletes
through the router, and readers scan, rank lists and read documents. Before, between and after the moves, at least
--writes writes are acknowledged.

No read may fail. Every acknowledged write must be in the stream, exactly once and with the acknowledged outcome, and for
every answer there must be one sequence per group at which an oracle held its documents, with scores that have the bits
of a single server which follows the same stream. At the end each server holds the documents of its slots and no
others. The test prints the longest pause of writes, between two acknowledgements, and of reads.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import time

import corpus
import history
import nats_server
import nodes
import oracle as exact
import server as client
from background import Askers
from live_end import check_the_end
from live_load import NUMBERS, PATIENCE_S, Questions, Writers, scores_of
from numbered import vectors

GROUPS, OWNERS, REPLICAS, DIM = 3, 2, 2, 16
# Sixths of the slots: each is in one group, whether two or three groups have the slots.
PARTS = 6
IDS, BASE = 150, 60  # number of ids that writers use, and number of documents that exist from the start
KINDS = {"words": ("f16", "string"), "numbers": ("i8", "int64")}
STEP = re.compile(r"step (\d+): ")
KILLED_AT = range(3, 13)  # of the 13 steps from two groups to three


class World:
    """The servers, and their collection `name`. The servers of the first two groups have one half each, and those of the
    third group have nothing. No server has the collection in its configuration, so that it may be replaced."""

    def __init__(self, programs, folder, seed, name):
        self.programs, self.folder, self.name = programs.resolve(), folder, name
        storage, id_type = KINDS[name]
        self.ids = corpus.Corpus(name, storage, id_type, seed, DIM, IDS)
        self.oracle = exact.Oracle(self.ids.storage, id_type)
        chooser = random.Random(seed)
        self.numbers = {self.ids.id_of(k): chooser.randrange(NUMBERS) for k in range(BASE)}
        for k, (id, number) in enumerate(self.numbers.items()):
            self.oracle.begin_with(id, vectors(number, DIM), f'{{"b":{k}}}')
        self.oracle.build(self.programs, folder / "base", name)
        split = ["split", folder / "base", "--into", OWNERS, "--output", folder / "parts", "--quiet"]
        nodes.shard_tool(self.programs, *split)
        pool = {str(number): exact.Document(self.ids.storage, vectors(number, DIM)) for number in range(NUMBERS)}
        exact.build_collection(self.programs, folder / "pool", "pool", self.ids.storage, pool)
        self.nats = nats_server.NatsServer(folder / "nats")
        flags = {**client.COMPACTS_OFTEN, "live.log": "nats", "nats.url": self.nats.url, "nats.replicas": 1}
        self.cluster = nodes.Cluster(programs, folder, {}, [{}] * GROUPS, REPLICAS, flags)
        for node in self.cluster.replicas():
            node.flags.pop("cluster.partition")
            node.flags["store.allowed_roots"] = node.folder
        shutil.copytree(folder / "base", self.cluster.single.folder / name)
        self.cluster.single.collections = {name: f"{self.cluster.single.folder / name},live", "pool": folder / "pool"}

    def load(self):
        """Loads the halves on the servers of the first groups."""
        for index, group in enumerate(self.cluster.groups[:OWNERS]):
            for node in group:
                path = node.folder / "first"
                shutil.copytree(self.folder / "parts" / f"partition-{index}-of-{OWNERS}", path)
                node.load(self.name, path, live=True)
                node.collections = {self.name: path}
        self.cluster.wait_ready()

    def scores(self):
        return scores_of(self.cluster.single, DIM)


class Tool:
    """Runs `maxsimctl cluster` on the router."""

    def __init__(self, world):
        self.world = world
        self.base = [str(world.programs / "maxsimctl"), "--server", world.cluster.router.target, "cluster"]

    def rebalance(self, count):
        """Gives the first `count` groups equal ranges of slots. Returns what the program printed."""
        command = self._rebalance(count)
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def rebalance_and_kill(self, count, number):
        """Begins to give the first `count` groups equal ranges, and kills the program when it begins step `number`."""
        command = self._rebalance(count)
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
        return [*self.base, "rebalance", self.world.name, "--groups", groups, "--grace", "1"]

    def check_layout(self, count):
        """Checks that the first `count` groups answer for equal ranges, and that their servers hold exactly these."""
        command = [*self.base, "layout", self.world.name, "--json"]
        layout = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        borders = [index * corpus.NUM_SLOTS // count for index in range(count + 1)]
        ranges = [{"first_slot": first, "end_slot": end} for first, end in zip(borders, borders[1:])]
        owners = [{"group": f"g{index}", "slots": slots} for index, slots in enumerate(ranges)]
        assert layout["owners"] == owners, f"the owners are {layout['owners']}"
        held = [[one.get("slots") for one in group["replicas"]] for group in layout["groups"]]
        wanted = [[slots] * REPLICAS for slots in ranges] + [[None] * REPLICAS] * (GROUPS - count)
        assert held == wanted, f"the servers hold {held} instead of {wanted}"


def wait_for_writes(writers, askers, count):
    """Waits until `count` more writes are acknowledged."""
    before, begin = writers.ledger.count, time.monotonic()
    while writers.ledger.count < before + count:
        assert not writers.problems, writers.problems[0]
        askers.expect_no_problem()
        taken = writers.ledger.count - before
        assert time.monotonic() < begin + PATIENCE_S, f"{taken} of {count} writes were taken in {PATIENCE_S} s"
        time.sleep(0.01)


def grow_and_shrink(world, writers, askers, arguments):
    tool, chooser = Tool(world), random.Random(arguments.seed)

    def phase(what, action):
        askers.event = what
        print(what, flush=True)
        result = action()
        if result:
            print(result, flush=True)
        askers.expect_no_problem()

    wait_for_writes(writers, askers, arguments.writes)
    number = chooser.choice(KILLED_AT)
    phase(f"grow, killed at step {number}", lambda: tool.rebalance_and_kill(GROUPS, number))
    phase("grow", lambda: tool.rebalance(GROUPS))
    tool.check_layout(GROUPS)
    wait_for_writes(writers, askers, arguments.writes)
    phase("shrink", lambda: tool.rebalance(OWNERS))
    tool.check_layout(OWNERS)
    wait_for_writes(writers, askers, arguments.writes)


def check(world, ledger, questions):
    """Reads the stream, and checks acknowledgements, answers, and what the servers hold."""
    known = history.History(ledger, world.oracle, world.numbers, PARTS)
    stream = f"maxsim-{world.name}"
    known.extend(world.nats.messages(stream, 1, world.nats.stream_state(stream)["last_seq"]))
    known.check_acknowledged(ledger.take())
    known.check_not_undone()
    questions.check(known, questions.answers)
    groups = [
        (group, [id for id in known.ids() if corpus.part_of(id, OWNERS) == index])
        for index, group in enumerate(world.cluster.groups[:OWNERS])
    ]
    check_the_end(world, questions, known, groups)
    for node in world.cluster.groups[OWNERS]:
        assert node.info(world.name) is None, f"{node.name} still has the collection"
    return known


def report(writers, askers, questions, known):
    codes = collections.Counter(code for _, _, code in writers.calls)
    ends = sorted(end for _, end, code in writers.calls if code == 0)
    pause = max(later - earlier for earlier, later in zip(ends, ends[1:]))
    longest = max(end - begin for begin, end, _ in writers.calls)
    print(f"{writers.ledger.count} writes, {known.last} messages; calls by code: {dict(codes)}")
    print(f"{dict(questions.counts)}; {askers.summary()}")
    print(f"longest pause of writes {1e3 * pause:.0f} ms, longest write {1e3 * longest:.0f} ms, ", end="")
    print(f"longest read {1e3 * max(askers.times):.0f} ms")
    if len(askers.times) < 100:
        sys.exit("too little was asked for this to mean something")


def run(world, arguments):
    ledger = history.Ledger()
    world.nats.start()
    try:
        with world.cluster as cluster:
            cluster.start()
            world.load()
            questions = Questions(world, ledger, arguments.seed)
            writers = Writers(world, ledger, arguments.seed, arguments.rate, arguments.writers)
            askers = Askers(cluster.router, questions, arguments.clients, arguments.deadline, rest_s=0.02)
            with askers, writers:
                grow_and_shrink(world, writers, askers, arguments)
            assert not writers.problems, writers.problems[0]
            askers.expect_no_problem()
            known = check(world, ledger, questions)
            report(writers, askers, questions, known)
            cluster.stop()
    finally:
        world.nats.kill()


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
        run(World(arguments.programs, folder, arguments.seed, name), arguments)


if __name__ == "__main__":
    main()
