"""A live collection served through a router must behave like the same collection on a single server.

    live_cluster_test.py FOLDER_OF_THE_PROGRAMS [--seconds 15] [--seed S]

Three groups of one server each have their own logs. Every write goes through the router, to a single server that holds
everything, and to an oracle. Outcomes, documents and scores must be equal bit for bit. A search of the whole collection
returns documents in the order of scores. Equal scores are ordered by position: 2^40 + the sequence of the document's
write in its group. Compactions must not change this order. Each document must be in the group of its slot only.
"""

import argparse
import collections
import os
import pathlib
import random
import time

import compare
import corpus
import nodes
import oracle as exact
import server as client
from maxsim.v1 import admin_pb2, documents_pb2, rerank_pb2
from numbered import payload_of, query_vectors, vectors

PARTS, DIM, IDS = 3, 16, 150
ALL_IDS = 2 * IDS  # including ids that are only written while a group is down
ALL = 10_000  # results
FIRST_WRITTEN = 1 << 40  # position of sequence 0
KINDS = {"words": (rerank_pb2.DATA_TYPE_F16, "string"), "numbers": (rerank_pb2.DATA_TYPE_I8, "int64")}
NAMES = {rerank_pb2.DATA_TYPE_F16: "f16", rerank_pb2.DATA_TYPE_I8: "i8"}


class LiveCollection:
    """One collection on both sides, and its expected contents."""

    def __init__(self, cluster, name, seed):
        self.cluster, self.name = cluster, name
        self.router, self.single = cluster.router, cluster.single
        storage, self.id_type = KINDS[name]
        request = admin_pb2.CreateCollectionRequest(name=name, dim=DIM, storage=storage)
        request.id_type = {"string": rerank_pb2.ID_TYPE_STRING, "int64": rerank_pb2.ID_TYPE_INT64}[self.id_type]
        request.fields.add(name="n", kind=rerank_pb2.FIELD_KIND_INTEGER)  # of payload_of
        for node in (self.single, self.router):
            node.admin.CreateCollection(request, timeout=client.CALL_LIMIT_S)
        self.ids = corpus.Corpus(name, NAMES[storage], self.id_type, seed)
        self.oracle = exact.Oracle(exact.Storage(NAMES[storage], DIM), self.id_type)
        self.sequences = [0] * PARTS  # of the groups
        self.written = {}  # sequence of the last write in its group, by id
        self.chooser, self.counts = random.Random(f"{name}-{seed}"), collections.Counter()

    def id(self):
        return self.ids.id_of(self.chooser.randrange(IDS))

    # Writes.

    def _made(self, count):
        """Returns `count` random documents as (id, rows, payload, version). Many have the same vectors as another
        document."""
        made = []
        for _ in range(count):
            rows = vectors(self.chooser.randrange(60), DIM)
            payload = payload_of(self.chooser.randrange(5))
            made.append((self.id(), rows, payload, self.chooser.choice([0, 0, 0, 3, 7])))
        return made

    def _messages(self, made):
        return [client.document(id, rows, payload, version) for id, rows, payload, version in made]

    def _note(self, id, outcome, result):
        """Compares the result of a write with the expected outcome. Counts the write in the expected sequence of the
        id's group."""
        assert result.outcome == outcome, f"{id!r:.40}: outcome {result.outcome} instead of {outcome}"
        part = corpus.part_of(id, PARTS)
        if outcome == exact.APPLIED or (outcome == exact.NOT_FOUND and result.sequence):
            self.sequences[part] += 1
            assert result.sequence == self.sequences[part], (
                f"{id!r:.40}: sequence {result.sequence} of group {part} instead of {self.sequences[part]}"
            )
        else:
            assert result.sequence == 0, f"{id!r:.40}: sequence {result.sequence} of a write that was none"
        if outcome == exact.APPLIED:
            self.written[id] = self.sequences[part]

    def _in_parts(self, items, id_of):
        """Returns the indices of the items, sorted by the group of their ids. Within a group they keep the order of the
        call, in which the group numbers its writes."""
        return sorted(range(len(items)), key=lambda i: corpus.part_of(id_of(items[i]), PARTS))

    def do_upsert(self):
        made = self._made(self.chooser.choice([1, 3, 20]))
        request = client.upsert_request(self.name, self._messages(made))
        self.single.upsert(request)
        answer = self.router.upsert(request)
        outcomes = [self.oracle.upsert(*one) for one in made]
        assert len(answer.results) == len(made), f"{len(answer.results)} results of {len(made)} documents"
        for i in self._in_parts(made, lambda one: one[0]):
            self._note(made[i][0], outcomes[i], answer.results[i])
        self.counts["upserted"] += len(made)

    def do_stream(self):
        calls = [self._made(4) for _ in range(3)]
        requests = [client.upsert_request(self.name, self._messages(made)) for made in calls]
        answers = [
            node.documents.UpsertStream(iter(requests), timeout=client.CALL_LIMIT_S)
            for node in (self.single, self.router)
        ]
        for made in calls:
            for one in made:
                if self.oracle.upsert(*one) == exact.APPLIED:
                    part = corpus.part_of(one[0], PARTS)
                    self.sequences[part] += 1
                    self.written[one[0]] = self.sequences[part]
        for field in ("num_requests", "num_applied", "num_stale"):
            wanted, got = (getattr(answer, field) for answer in answers)
            assert got == wanted, f"{field} of a stream is {got} instead of {wanted}"

    def do_delete(self):
        ids = [self.id() for _ in range(self.chooser.choice([1, 2, 8]))]
        version = self.chooser.choice([0, 0, 5])
        request = client.delete_request(self.name, ids, version)
        self.single.delete(request)
        answer = self.router.delete(request)
        outcomes = [self.oracle.delete(id, version) for id in ids]
        for i in self._in_parts(ids, lambda id: id):
            self._note(ids[i], outcomes[i], answer.results[i])
        self.counts["deleted"] += outcomes.count(exact.APPLIED)

    def do_delete_matching(self):
        """Deletes all documents that match a filter. Each group deletes its matching documents in the order of their
        ids."""
        number, version = self.chooser.randrange(1, 5), self.chooser.choice([0, 0, 5])
        request = documents_pb2.DeleteRequest(collection=self.name, filter_text=f"n = {number}", version=version)
        ids = [
            id
            for id, document in self.oracle.documents.items()
            if document.payload == payload_of(number) and not 0 < version <= self.oracle.version_of(id)
        ]
        for node in (self.single, self.router):
            answer = node.documents.Delete(request, timeout=client.CALL_LIMIT_S)
            numbers = answer.num_deleted, answer.num_missing, answer.num_stale, answer.has_more, len(answer.results)
            assert numbers == (len(ids), 0, 0, False, 0), f"{numbers} of {len(ids)} documents with {request}"
        for id in sorted(ids, key=lambda id: id.encode() if isinstance(id, str) else id):
            assert self.oracle.delete(id, version) == exact.APPLIED, f"{id!r:.40} is not deleted"
            part = corpus.part_of(id, PARTS)
            self.sequences[part] += 1
            self.written[id] = self.sequences[part]
        self.counts["deleted by filter"] += len(ids)

    def do_wrong(self):
        """Sends a call with 12 documents, one of them invalid. The router must refuse the whole call, and no group may
        apply any part of it."""
        messages = self._messages(self._made(12))
        bad = messages[self.chooser.randrange(12)]
        fault = self.chooser.choice(["dim", "id", "payload", "tokens", "nan"])
        if fault == "dim":
            bad.tokens.CopyFrom(client.matrix(query_vectors(1, DIM + 1)))
        elif fault == "nan":
            bad.tokens.CopyFrom(client.matrix(query_vectors(1, DIM) * float("nan")))
        elif fault == "payload":
            bad.payload = "[1]"
        else:
            bad.ClearField(fault)
        request = client.upsert_request(self.name, messages)
        wanted, got = (compare.call(node.documents.Upsert, request) for node in (self.single, self.router))
        found = compare.difference(wanted, got)
        assert isinstance(wanted, compare.Failure) and not found, f"{fault}: {found or wanted}"
        self.counts["refused"] += 1

    def do_compact(self):
        for node in (self.single, self.router):
            node.compact(self.name)
        info = self.router.info(self.name)
        assert info.num_documents == len(self.oracle.documents), f"{info.num_documents} documents after a compaction"
        self.counts["compacted"] += 1

    def do_restart(self):
        node = self.cluster.groups[self.chooser.randrange(PARTS)][0]
        node.kill()
        self.cluster.wait_lost([node])
        node.start()
        self.cluster.wait_ready()
        self.counts["restarted"] += 1

    # Reads.

    def check(self):
        self.check_scan()
        self.check_list()
        self.check_get(self.chooser.sample([self.ids.id_of(k) for k in range(IDS)], 40))
        self.check_scroll()

    def _both(self, request):
        return [node.rerank(request) for node in (self.single, self.router)]

    def check_scan(self):
        rows = query_vectors(self.chooser.randrange(1000), DIM)
        whole = {"missing_policy": rerank_pb2.MISSING_POLICY_FAIL}  # the error says which group is lost, and why
        request = client.rerank_request(self.name, rows, top_k=ALL, return_payloads=True, **whole)
        wanted, got = (client.Ranking(answer.results[0]) for answer in self._both(request))
        scores, found = (dict(zip(one.ids, one.scores)) for one in (wanted, got))
        differ = {id: (found.get(id), scores.get(id)) for id in found.keys() | scores if found.get(id) != scores.get(id)}
        assert not differ, f"scores of a scan, and the one server's: {differ}"
        assert scores.keys() == self.oracle.documents.keys(), "a scan has other documents than were written"
        query = self.oracle.storage.query(rows)
        exactly, magnitudes = self.oracle.whole().scores(query)
        for id, right, magnitude in zip(self.oracle.order(), exactly, magnitudes):
            assert abs(scores[id] - right) <= exact.TOLERANCE * magnitude, f"{id!r}: {scores[id]} instead of {right}"
        positions = [FIRST_WRITTEN + self.written[id] for id in got.ids]
        assert got.positions == positions, f"positions {got.positions[:10]} instead of {positions[:10]}"
        keys = [(-score, position) for score, position in zip(got.scores, got.positions)]
        assert keys == sorted(keys), "a scan is not by score and then by position"
        for id, payload in zip(got.ids, got.payloads):
            assert payload == self.oracle.documents[id].payload, f"{id!r} has the payload {payload!r}"
        for top_k in (1, 7):
            some = client.rerank_request(self.name, rows, top_k=top_k)
            ranking = client.Ranking(self.router.rerank(some).results[0])
            wanted = list(zip(got.ids, got.scores, got.positions))[:top_k]
            best = list(zip(ranking.ids, ranking.scores, ranking.positions))
            assert best == wanted, f"the best {top_k} of a scan are {best} instead of {wanted}"
        self.counts["scanned"] += 1

    def check_list(self):
        ids = [self.id() for _ in range(30)]
        fields = {"return_payloads": True, "return_alignments": True}
        request = client.rerank_request(self.name, query_vectors(len(ids), DIM), ids, top_k=20, **fields)
        wanted, got = self._both(request)
        for one in (wanted, got):
            one.sequence = one.generation = 0
        found = compare.difference(wanted, got)
        assert not found, f"a list of ids: {found}"

    def check_get(self, ids):
        request = client.get_request(self.name, ids, return_tokens=True)
        answer = self.router.get(request)
        found = {client.stored_id(one): one for one in answer.documents}
        assert list(found) == [id for id in ids if id in self.oracle.documents], "Get finds other documents"
        assert client.missing_ids(answer) == [id for id in ids if id not in self.oracle.documents], "Get misses others"
        for id, stored in found.items():
            wanted = self.oracle.documents[id]
            assert stored.tokens.data == wanted.elements.tobytes(), f"{id!r} has other vectors"
            assert stored.payload == wanted.payload, f"{id!r} has the payload {stored.payload!r}"
            assert stored.version == self.oracle.versions.get(id, 0), f"{id!r} has the version {stored.version}"

    def check_scroll(self):
        """Reads the collection page by page. Together the pages must have the documents of all groups, in the order of
        their ids."""
        limit = self.chooser.choice([3, 40, 1000])
        request = documents_pb2.ScrollRequest(collection=self.name, limit=limit, return_payloads=True)
        listed, has_more = [], True
        while has_more:
            page = self.router.documents.Scroll(request, timeout=client.CALL_LIMIT_S)
            listed += page.documents
            has_more = page.has_more
            assert len(page.documents) == limit or not has_more, f"a page of {len(page.documents)} documents of more"
            if has_more:
                last = client.stored_id(listed[-1])
                setattr(request, "after_string_id" if isinstance(last, str) else "after_int_id", last)
        order = sorted(self.oracle.documents, key=lambda id: id.encode() if isinstance(id, str) else id)
        assert [client.stored_id(one) for one in listed] == order, "a list has other documents than were written"
        for one in listed:
            id = client.stored_id(one)
            assert one.payload == self.oracle.documents[id].payload, f"{id!r} has the payload {one.payload!r}"
            assert one.version == self.oracle.versions.get(id, 0), f"{id!r} has the version {one.version}"
        self.counts["listed"] += 1

    def check_places(self):
        """Checks that each document is only on the server of its slot."""
        ids = [self.ids.id_of(k) for k in range(ALL_IDS)]
        by_part = [[id for id in ids if corpus.part_of(id, PARTS) == part] for part in range(PARTS)]
        for part, group in enumerate(self.cluster.groups):
            node = group[0]
            answer = node.get(client.get_request(self.name, by_part[part]))
            found = {client.stored_id(one) for one in answer.documents}
            assert found == self.oracle.documents.keys() & set(by_part[part]), f"group {part} holds {found}"
            assert node.info(self.name).num_documents == len(found), f"group {part} holds documents of other slots"

    def check_lost(self):
        """Checks that documents of a group that is down cannot be written, and that documents of the other groups
        can."""
        lost = self.chooser.randrange(PARTS)
        node = self.cluster.groups[lost][0]
        node.kill()
        self.cluster.wait_lost([node])
        for part in range(PARTS):
            id = next(id for id in (self.ids.id_of(k) for k in range(IDS, ALL_IDS)) if corpus.part_of(id, PARTS) == part)
            made = (id, vectors(part, DIM), "", 0)
            request = client.upsert_request(self.name, self._messages([made]))
            answer = compare.call(self.router.documents.Upsert, request)
            if part == lost:
                assert getattr(answer, "code", 0) == 14, f"a write to a group that is away: {answer}"
                continue
            assert isinstance(answer, documents_pb2.UpsertResponse), f"a write to group {part}: {answer}"
            self._note(id, self.oracle.upsert(*made), answer.results[0])
            self.single.upsert(request)
        node.start()
        self.cluster.wait_ready()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("MAXSIM_TEST_SEED", "1")))
    arguments = parser.parse_args()
    print(f"MAXSIM_TEST_SEED={arguments.seed}", flush=True)
    chooser = random.Random(arguments.seed)
    # Each group has only one server here, which logs its writes in its own folder. live_chaos_test.py tests groups of
    # several servers, which share a NATS JetStream stream.
    with nodes.workspace("live-cluster") as folder:
        cluster = nodes.Cluster(arguments.programs, folder, {}, [{}] * PARTS, replicas=1, flags=client.COMPACTS_OFTEN)
        for node in [cluster.single, *cluster.replicas()]:
            node.flags["store.allowed_roots"] = node.folder
            node.collections = {}
        with cluster:
            cluster.start()
            made = [LiveCollection(cluster, name, arguments.seed) for name in KINDS]
            for node in [cluster.single, *cluster.replicas()]:
                node.collections = {one.name: node.folder / one.name for one in made}
            until = time.monotonic() + arguments.seconds
            weights = {"upsert": 10, "stream": 2, "delete": 4, "delete_matching": 1}
            weights |= {"wrong": 2, "compact": 1, "restart": 0.3}
            while time.monotonic() < until or not all(one.counts["compacted"] for one in made):
                one, kind = chooser.choice(made), chooser.choices(list(weights), weights.values())[0]
                getattr(one, "do_" + kind)()
                one.check()
            for one in made:
                one.check_lost()
                one.do_compact()
                one.check()
                one.check_places()
                print(one.name, dict(one.counts), flush=True)
            cluster.stop()


if __name__ == "__main__":
    main()
