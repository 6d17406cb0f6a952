"""Clients write to and rank a live collection on three groups of two replicas while servers, NATS and network fail.

    live_chaos_test.py FOLDER_OF_THE_PROGRAMS [--seconds 20] [--kind namespaces|relays] [--rate 200] [--seed S]

Writers send about 200 upserts per second, and deletes, through the router. Readers search the whole collection, rank
lists and read documents, half of them with the sequence of the newest acknowledgement. Meanwhile replicas are killed,
paused, drained, reloaded and compacted, nats-server is killed, and a replica is cut off from NATS or from the router:
one event at a time, and each kind at least once. No read may fail. A write that begins and ends while NATS is down must
get UNAVAILABLE. After each event the test reads the stream, and checks:

- Every acknowledged write is in the stream exactly once, with the acknowledged outcome. No other write is in it twice.
- No write whose call failed undid an acknowledged write that was sent after the failure.
- For every answer there is one sequence per group at which an oracle held the documents in the answer. The scores
  equal those of a single server bit for bit, and the answer names the oldest of these sequences.

At the end all replicas must hold the documents of the oracle.

With namespaces, each server has its own network, which delays and loses packets. Relays delay data on the loopback
interface, without loss. Without --kind, the test uses namespaces if they can be created. MAXSIM_TEST_SEED and
MAXSIM_CLUSTER_SECONDS also set seed and duration.
"""

import argparse
import collections
import os
import pathlib
import random
import sys
import time

import history
import nats_server
import nodes
import server as client
import wires
from background import Askers
from events import Events
from live_load import PATIENCE_S, UNAVAILABLE, Questions, Writers
from live_world import KINDS, World

PARTS, REPLICAS = 3, 2
CUT_S, AWAY_S = 5, 3
FLAGS = {**client.COMPACTS_OFTEN, "nats.replicas": 1, "nats.timeout": "1s"}


class LiveChaos(Events):
    kinds = ["killed", "nats_killed", "cut_off_nats", "paused", "cut_off_router", "reloaded", "drained", "compacted"]

    def __init__(self, world, writers, questions, known, chooser):
        super().__init__(world.cluster, chooser)
        self.world, self.writers, self.questions, self.known = world, writers, questions, known

    def after_event(self):
        """Waits until writes succeed again, reads the stream, and checks all writes and answers since the last
        check."""
        super().after_event()
        self.writers.wait_written()
        self.check()

    def check(self):
        self.writers.expect_no_problem()
        answers = self.questions.answers
        count = len(answers)
        self.world.check_writes(self.writers.ledger, self.known)
        self.questions.check(self.known, answers[:count])
        del answers[:count]

    def be_nats_killed(self):
        self.tell("kill nats-server")
        self.world.nats.kill()
        begin = time.monotonic()
        time.sleep(AWAY_S)
        # On a busy machine, no write may begin and end in that time.
        while not (codes := self._codes_since(begin)) and time.monotonic() < begin + PATIENCE_S:
            time.sleep(0.02)
        self.world.nats.start()
        assert codes.keys() == {UNAVAILABLE}, f"codes of writes without NATS: {dict(codes)}"

    def _codes_since(self, begin):
        """Counts the status codes of the finished writes that began after `begin`."""
        return collections.Counter(code for call_begin, _, code, _ in list(self.writers.calls) if call_begin > begin)

    def _be_cut(self, what, link):
        node = self.one(what)
        self.world.net.cut(link(node))
        time.sleep(CUT_S)
        self.world.net.heal(link(node))
        self.cluster.wait_ready()

    def be_cut_off_nats(self):
        self._be_cut("cut off NATS", lambda node: f"{node.name}/nats")

    def be_cut_off_router(self):
        self._be_cut("cut off the router", lambda node: f"router/{node.name}")

    def be_reloaded(self):
        self.tell("reload")
        self.reload_by_program(self.world.name)

    def be_compacted(self):
        self.tell("compact")
        self.cluster.router.compact(self.world.name)


def run(world, arguments, targets=None):
    ledger = history.Ledger()
    with world.started(targets) as cluster:
        known = history.History(ledger, world.oracle, world.numbers, PARTS)
        questions = Questions(world, ledger, arguments.seed)
        writers = Writers(world, ledger, arguments.seed, arguments.rate, arguments.writers)
        chaos = LiveChaos(world, writers, questions, known, random.Random(arguments.seed))
        chaos.askers = Askers(cluster.router, questions, arguments.clients, arguments.deadline, rest_s=0.02)
        begin = time.monotonic()
        with chaos.askers:
            with writers:
                chaos.run(arguments.seconds)
            seconds = time.monotonic() - begin
        chaos.askers.expect_no_problem()
        chaos.check()
        world.check_the_end(ledger, known, questions)
    report(chaos, seconds, arguments)


def report(chaos, seconds, arguments):
    codes = collections.Counter(code for _, _, code, _ in chaos.writers.calls)
    print(f"{dict(chaos.counts)}; {dict(chaos.questions.counts)}; {chaos.askers.summary()}")
    written = chaos.writers.ledger.count
    print(f"{written} writes in {seconds:.0f} s, {chaos.known.last} messages; calls by code: {dict(codes)}")
    if written < arguments.rate * seconds / 5 or len(chaos.askers.times) < 100:
        sys.exit("too little was written or asked for this to mean something")


def make_world(arguments, folder, name, nats, **options):
    return World(
        arguments.programs, folder, arguments.seed, name, nats, PARTS, REPLICAS, FLAGS, has_whole=True, **options
    )


def with_namespaces(arguments, folder, name):
    names = nodes.names_of_nodes(PARTS, REPLICAS)
    with wires.Switch([*names, "nats"], arguments.seed) as net:
        host, prefix = net.place("nats")
        nats = nats_server.NatsServer(folder / "nats", host=host, prefix=prefix)
        places = [net.place(one) for one in names]
        run(make_world(arguments, folder, name, nats, net=net, places=places), arguments)


def with_relays(arguments, folder, name):
    world = make_world(arguments, folder, name, nats_server.NatsServer(folder / "nats"))
    address = world.nats.url.removeprefix("nats://")
    with nodes.contextlib.ExitStack() as stack:
        to_nats = stack.enter_context(
            wires.Relays({f"{node.name}/nats": address for node in world.cluster.replicas()})
        )
        for node in world.cluster.replicas():
            node.flags["nats.url"] = f"nats://{to_nats.said[f'{node.name}/nats']}"

        def targets():
            by_link = {f"router/{node.name}": node.target for node in world.cluster.replicas()}
            to_replicas = stack.enter_context(wires.Relays(by_link))
            world.net = wires.Several(to_nats, to_replicas)
            return {node.name: to_replicas.said[f"router/{node.name}"] for node in world.cluster.replicas()}

        run(world, arguments, targets)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("MAXSIM_CLUSTER_SECONDS", 20)))
    parser.add_argument("--rate", type=float, default=200, help="documents a second that are written")
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--clients", type=int, default=3)
    parser.add_argument("--deadline", type=float, default=2, help="seconds that a read has")
    parser.add_argument("--kind", choices=["namespaces", "relays"])
    parser.add_argument("--collection", choices=list(KINDS))
    parser.add_argument(
        "--seed", type=int, default=int(os.environ.get("MAXSIM_TEST_SEED", "1"))
    )
    arguments = parser.parse_args()
    kind = arguments.kind or ("relays" if wires.why_no_switch() else "namespaces")
    name = arguments.collection or random.Random(arguments.seed).choice(list(KINDS))
    print(f"MAXSIM_TEST_SEED={arguments.seed}, {name}, with {kind}", flush=True)
    with nodes.workspace("live-chaos") as folder:
        {"namespaces": with_namespaces, "relays": with_relays}[kind](arguments, folder, name)


if __name__ == "__main__":
    main()
