"""A live collection on three groups of two replicas and NATS JetStream is written to and ranked while all of it fails.

    live_chaos_test.py FOLDER_OF_THE_PROGRAMS [--seconds 20] [--kind namespaces|relays] [--rate 200] [--seed S]

Writers send some 200 upserts per second, and deletes, through the router. Readers scan, rank lists and read
documents, half of them with the sequence of the newest acknowledgement. Meanwhile replicas are killed, paused,
drained, reloaded and compacted, nats-server is killed, and a replica is cut off from NATS or from the router: one
event at a time, and each at least once. After each event the test reads the stream. Every acknowledged write must be
in it, exactly once and with the acknowledged outcome, and no other write may be in it twice. A write whose call failed
must not undo an acknowledged write that was sent after the failure. For every answer there
must be one sequence per group at which an oracle held the documents in the answer. The scores must have the bits of a
single server that holds everything, and the answer must name the oldest of these sequences. No read may fail. A write
that begins and ends while NATS is down gets UNAVAILABLE. At the end all replicas hold the documents of the oracle.

With namespaces, each server has its own network, which delays and loses packets. Relays delay data on the loopback,
without loss. Without --kind, namespaces are used if they can be created. MAXSIM_TEST_SEED and MAXSIM_CLUSTER_SECONDS
also set seed and duration.
"""

import argparse
import collections
import os
import pathlib
import random
import shutil
import sys
import time

import compare
import corpus
import history
import nats_server
import nodes
import oracle as exact
import server as client
import wires
from background import Askers
from events import Events
from live_load import ALL, NUMBERS, QUERIES, UNAVAILABLE, Questions, Writers
from numbered import query_vectors, vectors

PATIENCE_S = 240  # how long a busy machine may take
PARTS, REPLICAS, DIM = 3, 2, 16
IDS, BASE = 150, 60  # number of ids that writers use, and number of documents that exist from the start
CUT_S, AWAY_S, NATS_TIMEOUT_S = 5, 3, 1
KINDS = {"words": ("f16", "string"), "numbers": ("i8", "int64")}


def replica_names():
    return [f"g{part}-{'abc'[replica]}" for part in range(PARTS) for replica in range(REPLICAS)]


class World:
    """The servers, and their collection `name`: each server has a copy of one build, and all share one stream."""

    def __init__(self, programs, folder, seed, name, net, places, nats_place):
        self.programs, self.folder, self.name, self.net = programs.resolve(), folder, name, net
        storage, id_type = KINDS[name]
        self.ids = corpus.Corpus(name, storage, id_type, seed, DIM, IDS)
        self.oracle = exact.Oracle(self.ids.storage, id_type)
        chooser = random.Random(seed)
        self.numbers = {self.ids.id_of(k): chooser.randrange(NUMBERS) for k in range(BASE)}
        for k, (id, number) in enumerate(self.numbers.items()):
            self.oracle.begin_with(id, vectors(number, DIM), f'{{"b":{k}}}')
        self._build()
        host, prefix = nats_place
        self.nats = nats_server.NatsServer(folder / "nats", host=host, prefix=prefix)
        flags = {
            **client.COMPACTS_OFTEN,
            "live.log": "nats",
            "nats.url": self.nats.url,
            "nats.replicas": 1,
            "nats.timeout": f"{NATS_TIMEOUT_S}s",
        }
        self.cluster = nodes.Cluster(programs, folder, {}, [{}] * PARTS, REPLICAS, flags, places)
        for part, group in enumerate(self.cluster.groups):
            for node in group:
                self._give(node, folder / "parts" / f"partition-{part}-of-{PARTS}")
        self._give(self.cluster.single, folder / "base")
        self.cluster.single.collections["pool"] = folder / "pool"

    def _build(self):
        storage = self.ids.storage
        self.oracle.build(self.programs, self.folder / "base", self.name)
        split = ["split", self.folder / "base", "--into", PARTS, "--output", self.folder / "parts", "--quiet"]
        nodes.shard_tool(self.programs, *split)
        pool = {str(number): exact.Document(storage, vectors(number, DIM)) for number in range(NUMBERS)}
        exact.build_collection(self.programs, self.folder / "pool", "pool", storage, pool)

    def _give(self, node, source):
        path = node.folder / self.name
        shutil.copytree(source, path)
        node.collections = {self.name: f"{path},live"}

    def stream_last(self):
        return self.nats.stream_state(f"maxsim-{self.name}")["last_seq"]

    def messages(self, first, last):
        return self.nats.messages(f"maxsim-{self.name}", first, last)

    def scores(self):
        """Returns the score of each query with each number's vectors, from the single server."""
        table = []
        for query in range(QUERIES):
            request = client.rerank_request("pool", query_vectors(query, DIM), top_k=ALL)
            ranking = client.Ranking(self.cluster.single.rerank(request).results[0])
            table.append({int(id): score for id, score in zip(ranking.ids, ranking.scores)})
        return table


class LiveChaos(Events):
    kinds = ["killed", "nats_killed", "cut_off_nats", "paused", "cut_off_router", "reloaded", "drained", "compacted"]

    def __init__(self, world, writers, questions, known, chooser):
        super().__init__(world.cluster, chooser)
        self.world, self.writers, self.questions, self.known = world, writers, questions, known

    def after_event(self):
        """Waits until writes succeed again, reads the stream, and checks everything that has happened since the last
        check."""
        super().after_event()
        begin, before = time.monotonic(), self.writers.ledger.count
        while self.writers.ledger.count < before + 20:
            assert not self.writers.problems, self.writers.problems[0]
            taken = self.writers.ledger.count - before
            assert time.monotonic() < begin + PATIENCE_S, f"{taken} writes were taken in {PATIENCE_S} s"
            time.sleep(0.01)
        self.check()

    def check(self):
        assert not self.writers.problems, self.writers.problems[0]
        acknowledged = self.writers.ledger.take()
        answers = self.questions.answers
        count = len(answers)
        self.known.extend(self.world.messages(self.known.last + 1, self.world.stream_last()))
        self.known.check_acknowledged(acknowledged)
        self.known.check_not_undone()
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
        """Returns the status codes of the writes that began after `begin` and have ended, and how many have each."""
        return collections.Counter(code for call_begin, _, code in list(self.writers.calls) if call_begin > begin)

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


def check_the_end(world, questions, known):
    """Every replica holds the documents of the oracle, and the router ranks like the single server."""
    cluster, documents = world.cluster, known.oracle.documents
    for node in [cluster.single, *cluster.replicas()]:
        until = time.monotonic() + PATIENCE_S
        while (sequence := node.info(world.name).live.sequence) != known.last:
            assert time.monotonic() < until, f"{node.name} has applied {sequence} of {known.last} messages"
            time.sleep(0.02)
    for part, group in enumerate(cluster.groups):
        ids = [id for id in known.ids() if corpus.part_of(id, PARTS) == part]
        wanted = {id: documents[id].payload for id in ids if id in documents}
        for node in group:
            answer = node.get(client.get_request(world.name, ids, return_tokens=True))
            found = {client.stored_id(one): one.payload for one in answer.documents}
            assert found == wanted, f"{node.name} holds {found} instead of {wanted}"
            assert node.info(world.name).num_documents == len(wanted), f"{node.name} holds documents of other slots"
            for one in answer.documents:
                questions.check_stored(one)
    for query in range(QUERIES):
        request = client.rerank_request(world.name, query_vectors(query, DIM), top_k=ALL, return_payloads=True)
        wanted, got = (node.rerank(request) for node in (cluster.single, cluster.router))
        for one in (wanted, got):
            one.generation = 0  # each server compacts on its own
            one.results[0].ClearField("positions")  # a collection without partitions counts positions differently
        found = compare.difference(wanted, got)
        assert not found, f"the router and the one server rank differently: {found}"


def run(world, arguments, targets=None):
    ledger = history.Ledger()
    world.nats.start()
    try:
        with world.cluster as cluster:
            cluster.start(targets)
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
            check_the_end(world, questions, known)
            cluster.stop()
    finally:
        world.nats.kill()
    report(chaos, seconds, arguments)


def report(chaos, seconds, arguments):
    codes = collections.Counter(code for _, _, code in chaos.writers.calls)
    print(f"{dict(chaos.counts)}; {dict(chaos.questions.counts)}; {chaos.askers.summary()}")
    written = chaos.writers.ledger.count
    print(f"{written} writes in {seconds:.0f} s, {chaos.known.last} messages; calls by code: {dict(codes)}")
    if written < arguments.rate * seconds / 5 or len(chaos.askers.times) < 100:
        sys.exit("too little was written or asked for this to mean something")


def with_namespaces(arguments, folder, name):
    names = ["single", "router", *replica_names(), "nats"]
    with wires.Switch(names, arguments.seed) as net:
        places = [net.place(one) for one in names]
        run(World(arguments.programs, folder, arguments.seed, name, net, places, net.place("nats")), arguments)


def with_relays(arguments, folder, name):
    world = World(arguments.programs, folder, arguments.seed, name, None, None, ("127.0.0.1", ()))
    address = world.nats.url.removeprefix("nats://")
    with nodes.contextlib.ExitStack() as stack:
        to_nats = stack.enter_context(wires.Relays({f"{one}/nats": address for one in replica_names()}))
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
