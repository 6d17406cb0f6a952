"""A live collection on groups of replicas that follow one stream, and checks of the documents on the servers."""

import contextlib
import pathlib
import random
import shutil
import time

import compare
import corpus
import nodes
import oracle as exact
import server as client
from live_load import ALL, NUMBERS, PATIENCE_S, QUERIES
from numbered import query_vectors, vectors

IDS, BASE = 150, 60  # number of ids that writers use, and number of documents that exist at the start
KINDS = {"words": ("f16", "string"), "numbers": ("i8", "int64")}
RECONNECT_S = 2  # within this time, every client connects to a router that was restarted


class World:
    """The servers of a test, and their collection `name`, one of KINDS. The slots are divided among `parts` groups, the
    `owners`. Each replica of the owners starts with a copy of the group's documents, and all replicas share the stream
    of `nats`. `empty_groups` further groups have no documents. The single server computes all scores and, with
    `has_whole`, follows the stream too. `of_cluster` are further arguments of nodes.Cluster."""

    def __init__(
        self,
        programs,
        folder,
        seed,
        name,
        nats,
        parts,
        replicas,
        flags,
        dim=16,
        net=None,
        has_whole=False,
        empty_groups=0,
        **of_cluster,
    ):
        self.programs, self.folder = pathlib.Path(programs).resolve(), pathlib.Path(folder)
        self.name, self.nats, self.parts, self.net = name, nats, parts, net
        self.stream = f"maxsim-{name}"
        storage, id_type = KINDS[name]
        self.ids = corpus.Corpus(name, storage, id_type, seed, dim, IDS)
        self.oracle = exact.Oracle(self.ids.storage, id_type)
        chooser = random.Random(seed)
        self.numbers = {self.ids.id_of(k): chooser.randrange(NUMBERS) for k in range(BASE)}
        for k, (id, number) in enumerate(self.numbers.items()):
            self.oracle.begin_with(id, vectors(number, dim), f'{{"b":{k}}}')
        self._build()
        flags = {"live.log": "nats", "nats.url": nats.url, **flags}
        num_groups = parts + empty_groups
        self.cluster = nodes.Cluster(programs, folder, {}, [{}] * num_groups, replicas, flags, **of_cluster)
        self.owners, self.others = self.cluster.groups[:parts], self.cluster.groups[parts:]
        for part, group in enumerate(self.owners):
            for node in group:
                self._give(node, self.folder / "parts" / f"partition-{part}-of-{parts}")
        if has_whole:
            self._give(self.cluster.single, self.folder / "base")
        self.cluster.single.collections["pool"] = self.folder / "pool"
        self._down = []  # (index of a router, when it started again)

    def _build(self):
        storage = self.ids.storage
        self.oracle.build(self.programs, self.folder / "base", self.name)
        split = ["split", self.folder / "base", "--into", self.parts, "--output", self.folder / "parts", "--quiet"]
        nodes.shard_tool(self.programs, *split)
        pool = {str(number): exact.Document(storage, vectors(number, storage.dim)) for number in range(NUMBERS)}
        exact.build_collection(self.programs, self.folder / "pool", "pool", storage, pool)

    def _give(self, node, source):
        path = node.folder / self.name
        shutil.copytree(source, path)
        node.collections = {self.name: f"{path},live"}

    @contextlib.contextmanager
    def started(self, targets=None):
        """Starts NATS and the servers, and yields the cluster. At the end, checks that all servers stop properly.
        `targets` is the argument of nodes.Cluster.start()."""
        try:
            self.nats.start()
            with self.cluster as cluster:
                cluster.start(targets)
                yield cluster
                cluster.stop()
        finally:
            self.nats.kill()

    def scores(self):
        """Returns the score of each query with each pool document (the vectors of one number), from the single
        server."""
        table = []
        for query in range(QUERIES):
            request = client.rerank_request("pool", query_vectors(query, self.ids.dim), top_k=ALL)
            ranking = client.Ranking(self.cluster.single.rerank(request).results[0])
            table.append({int(id): score for id, score in zip(ranking.ids, ranking.scores)})
        return table

    def kill_router(self, index, away):
        """Kills a router, calls `away`, and starts the router again."""
        self._down.append((index, float("inf")))
        self.cluster.routers[index].kill()
        away()
        self.cluster.routers[index].start()
        self._down[-1] = index, time.monotonic()

    def router_was_down(self, index, since):
        """Returns whether a call to router `index` that began at `since` may have failed because kill_router() killed
        the router."""
        return any(one == index and until + RECONNECT_S > since for one, until in self._down)

    def wait_for_stream(self, sequence):
        """Waits until NATS reports that the stream has reached `sequence`. After a failover, NATS may report an older
        last sequence for a while. Returns the stream's last sequence."""
        until = time.monotonic() + PATIENCE_S
        while (last := self.nats.stream_state(self.stream)["last_seq"]) < sequence:
            assert time.monotonic() < until, f"{sequence} was acknowledged, and the stream ends with {last}"
            time.sleep(0.05)
        return last

    def check_writes(self, ledger, known):
        """Reads the stream, and compares it with the writes that were acknowledged or failed since the last check."""
        acknowledged = ledger.take()
        last = self.wait_for_stream(ledger.newest)
        known.extend(self.nats.messages(self.stream, known.last + 1, last))
        known.check_acknowledged(acknowledged)
        known.check_not_undone()

    def settle(self, ledger, known, servers):
        """Waits until the servers and `known` have applied the whole stream. Failed writes may still be added to the
        stream meanwhile."""
        until = time.monotonic() + PATIENCE_S
        while True:
            if self.nats.stream_state(self.stream)["last_seq"] > known.last:
                self.check_writes(ledger, known)
            applied = {node.name: node.info(self.name).live.sequence for node in servers}
            if set(applied.values()) == {known.last}:
                return
            assert time.monotonic() < until, f"servers have applied {applied} of {known.last} messages"
            time.sleep(0.02)

    def check_replicas(self, ledger, known, questions):
        """Checks that every replica of the owners has applied the whole stream, and holds exactly the oracle's
        documents of its group. The servers of other groups must not have the collection. No client may write meanwhile.
        """
        documents = known.oracle.documents
        self.settle(ledger, known, [node for group in self.owners for node in group])
        for part, group in enumerate(self.owners):
            ids = [id for id in known.ids() if corpus.part_of(id, self.parts) == part]
            wanted = {id: documents[id].payload for id in ids if id in documents}
            for node in group:
                answer = node.get(client.get_request(self.name, ids, return_tokens=True))
                found = {client.stored_id(one): one.payload for one in answer.documents}
                assert found == wanted, f"{node.name} holds {found} instead of {wanted}"
                assert node.info(self.name).num_documents == len(wanted), f"{node.name} holds documents of other slots"
                for one in answer.documents:
                    questions.check_stored(one)
        for group in self.others:
            for node in group:
                assert node.info(self.name) is None, f"{node.name} still has the collection"

    def check_the_end(self, ledger, known, questions):
        """Checks the replicas, and that the router ranks like the single server, which must follow the stream. No
        client may write meanwhile."""
        self.check_replicas(ledger, known, questions)
        self.settle(ledger, known, [self.cluster.single])
        for query in range(QUERIES):
            rows = query_vectors(query, self.ids.dim)
            request = client.rerank_request(self.name, rows, top_k=ALL, return_payloads=True)
            wanted, got = (node.rerank(request) for node in (self.cluster.single, self.cluster.router))
            for one in (wanted, got):
                one.generation = 0  # each server compacts on its own
                one.results[0].ClearField("positions")  # a collection without partitions counts positions differently
            found = compare.difference(wanted, got)
            assert not found, f"the router and the one server rank differently: {found}"
