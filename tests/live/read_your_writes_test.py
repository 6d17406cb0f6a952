"""Many clients write to a live collection and immediately read what they wrote, while the server compacts and reloads.

    read_your_writes_test.py FOLDER_OF_THE_PROGRAMS [--seconds 10] [--clients 8] [--seed S] [--codes PLANES]

Once a write is acknowledged, every request of every client must see it, with or without min_sequence. Once a delete is
acknowledged, no request may find the document. No client may see an older snapshot after a newer one. With --codes,
clients also search by codes, and must find the documents that an exact search finds. MAXSIM_TEST_SEED and
MAXSIM_LIVE_SECONDS also set seed and duration.
"""

import argparse
import collections
import os
import pathlib
import random
import sys
import tempfile
import threading
import time
import traceback

import grpc
import numpy as np

import oracle as exact
import server as client

NAME, DIM, NUM_BASE, IDS_OF_A_CLIENT = "corpus", 16, 100, 12


def rows_of(seed):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((int(rng.integers(1, 6)), DIM)).astype(np.float32)


class Failed(AssertionError):
    pass


def expect(condition, what):
    if not condition:
        raise Failed(what)


class Stress:
    def __init__(self, server, seed):
        self.server, self.seed = server, seed
        self.stop = threading.Event()
        self.problems, self.counts = [], collections.Counter()
        self.told = collections.deque(maxlen=64)  # (id, count or None, sequence) of acknowledged writes
        self.final = {}

    def run(self, function, *arguments):
        try:
            while not self.stop.is_set():
                function(*arguments)
        except Exception:  # pylint: disable=broad-except  the main thread reports it
            self.problems.append(traceback.format_exc())
            self.stop.set()

    def maintain(self, chooser):
        """Compacts or reloads the collection, then waits for up to 50 ms."""
        try:
            if chooser.random() < 0.7:
                self.counts["compacted"] += self.server.compact(NAME).changed
            else:
                self.server.reload(NAME)
        except grpc.RpcError as error:
            raise Failed(f"maintenance: {error.code()}: {error.details()}") from error
        time.sleep(0.05 * chooser.random())


class Client:
    """One client, which has its own connection and writes only its own ids."""

    def __init__(self, stress, number):
        self.stress, self.number = stress, number
        self.chooser = random.Random(stress.seed * 100 + number)
        channel = stress.server.channel()
        self.reranker = client.rerank_pb2_grpc.RerankerStub(channel)
        self.documents = client.documents_pb2_grpc.DocumentsStub(channel)
        self.count = 0
        self.mine = {}  # id: (count, vectors)
        self.seen = 0  # the highest sequence of all answers so far

    def step(self):
        ids = [
            f"c{self.number}-{i}" for i in self.chooser.sample(range(IDS_OF_A_CLIENT), self.chooser.choice([1, 1, 3]))
        ]
        if self.chooser.random() < 0.1:  # writes a document that the collection began with
            ids.append(f"doc-{self.chooser.randrange(self.number, NUM_BASE, self.stress.clients)}")
        if self.chooser.random() < 0.3:
            answer = self.documents.Delete(client.delete_request(NAME, ids), timeout=60)
            for id in ids:
                self.mine[id] = None
        else:
            self.count += 1
            made = {id: rows_of([self.number, self.count, i]) for i, id in enumerate(ids)}
            payload = f'{{"count":{self.count}}}'
            messages = [client.document(id, rows, payload) for id, rows in made.items()]
            answer = self.documents.Upsert(client.upsert_request(NAME, messages), timeout=60)
            for id, rows in made.items():
                self.mine[id] = (self.count, rows)
        self.stress.counts["written"] += len(ids)
        minimum = answer.sequence if self.chooser.random() < 0.5 else 0
        self.notice(answer.sequence)
        self.stress.told.append((ids[0], self.mine[ids[0]] and self.count, answer.sequence))
        ways = [self.by_get, self.by_list, self.by_scan] + [self.by_codes] * (self.stress.planes > 0)
        self.chooser.choice(ways)(ids, minimum)
        self.of_others()

    def notice(self, sequence):
        expect(sequence >= self.seen, f"client {self.number} saw sequence {self.seen} and then {sequence}")
        self.seen = sequence
        self.stress.counts["read"] += 1

    def by_get(self, ids, minimum):
        answer = self.documents.Get(client.get_request(NAME, ids, min_sequence=minimum), timeout=60)
        self.notice(answer.sequence)
        stored = {one.string_id: one.payload for one in answer.documents}
        missing = set(client.missing_ids(answer))
        for id in ids:
            self.expect_seen(id, stored.get(id), id in missing)

    def by_list(self, ids, minimum):
        request = client.rerank_request(NAME, rows_of(self.count), ids, return_payloads=True, min_sequence=minimum)
        answer = self.reranker.Rerank(request, timeout=60)
        self.notice(answer.sequence)
        ranking = client.Ranking(answer.results[0])
        stored = dict(zip(ranking.ids, ranking.payloads))
        for id in ids:
            self.expect_seen(id, stored.get(id), id in ranking.missing)

    def expect_seen(self, id, payload, is_missing):
        if self.mine[id] is None:
            expect(is_missing and payload is None, f"{id} was deleted, and {payload} is there")
        else:
            wanted = f'{{"count":{self.mine[id][0]}}}'
            expect(payload == wanted and not is_missing, f"{id} has {payload} instead of {wanted}")

    def by_scan(self, ids, minimum):
        """Ranks the whole collection. The ranking must contain this client's documents as the client wrote them, with
        the correct scores."""
        rows = rows_of(self.count)
        request = client.rerank_request(NAME, rows, top_k=10_000, min_sequence=minimum, return_payloads=True)
        answer = self.reranker.Rerank(request, timeout=60)
        self.notice(answer.sequence)
        ranking = client.Ranking(answer.results[0])
        expect(len(set(ranking.ids)) == len(ranking.ids), "a scan names a document twice")
        found = dict(zip(ranking.ids, zip(ranking.payloads, ranking.scores)))
        query = self.stress.storage.query(rows)
        for id, wanted in self.mine.items():
            payload, score = found.get(id, (None, None))
            self.expect_seen(id, payload, id not in found)
            if wanted:
                one = exact.Candidates([exact.Document(self.stress.storage, wanted[1])])
                right, magnitude = one.scores(query)
                close = abs(score - right[0]) <= exact.TOLERANCE * magnitude[0]
                expect(close, f"{id} has the score {score} instead of {right[0]}")
        self.stress.counts["scanned"] += 1

    def by_codes(self, ids, minimum):
        """Searches by codes for a document that this client has just written. A proven answer must contain each of the
        client's documents that scores higher than the last result, and no deleted or replaced one."""
        written = [self.mine[id] for id in ids if self.mine[id]]
        rows = written[0][1] if written else rows_of(self.count)
        request = client.rerank_request(
            NAME, rows, top_k=5, min_sequence=minimum, return_payloads=True, refinement=client.proven(8)
        )
        answer = self.reranker.Rerank(request, timeout=60)
        self.notice(answer.sequence)
        ranking = client.Ranking(answer.results[0])
        expect(ranking.refinement is not None, "a search by codes scanned nothing")
        is_proven = ranking.refinement.certificate == client.rerank_pb2.CERTIFICATE_PROVEN
        expect(is_proven, f"with a budget for all documents nothing is proven: {ranking.refinement}")
        found = dict(zip(ranking.ids, zip(ranking.payloads, ranking.scores)))
        query = self.stress.storage.query(rows)
        for id, wanted in self.mine.items():
            payload, score = found.get(id, (None, None))
            if wanted is None:
                expect(payload is None, f"{id} was deleted, and a search by codes found {payload}")
                continue
            right, magnitude = exact.Candidates([exact.Document(self.stress.storage, wanted[1])]).scores(query)
            slack = exact.TOLERANCE * magnitude[0]
            if score is None:
                expect(right[0] <= ranking.scores[-1] + 2 * slack, f"{id} scores {right[0]}, and codes missed it")
            else:
                self.expect_seen(id, payload, False)
                expect(abs(score - right[0]) <= slack, f"{id} has the score {score} instead of {right[0]}")
        self.stress.counts["by codes"] += 1

    def of_others(self):
        """Reads an id after a write of it was acknowledged, usually to another client."""
        id, count, sequence = self.chooser.choice(list(self.stress.told))
        minimum = sequence if self.chooser.random() < 0.5 else 0
        answer = self.documents.Get(client.get_request(NAME, [id], min_sequence=minimum), timeout=60)
        self.notice(answer.sequence)
        expect(answer.sequence >= sequence, f"sequence {answer.sequence} after {sequence} was acknowledged")
        if answer.documents and count is not None:
            now = int(answer.documents[0].payload.removeprefix('{"count":').removesuffix("}"))
            expect(now >= count, f"{id} has count {now}, and {count} was acknowledged")


def check_the_end(stress, clients, server):
    """Compares the collection's documents with those that the clients wrote."""
    wanted = {f"doc-{i}": "" for i in range(NUM_BASE)}
    for one in clients:
        for id, state in one.mine.items():
            wanted.pop(id, None)
            if state:
                wanted[id] = f'{{"count":{state[0]}}}'
    ids = {f"doc-{i}" for i in range(NUM_BASE)}.union(*(one.mine for one in clients))
    response = server.get(client.get_request(NAME, sorted(ids)))
    expect({one.string_id: one.payload for one in response.documents} == wanted, "documents differ at the end")
    expect(server.info(NAME).num_documents == len(wanted), "GetInfo has another number of documents")
    return stress.counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("MAXSIM_LIVE_SECONDS", 10)))
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--storage", default="f16")
    parser.add_argument("--codes", type=int, default=0, help="planes of codes that the collection has")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("MAXSIM_TEST_SEED", "1")))
    arguments = parser.parse_args()
    print(f"MAXSIM_TEST_SEED={arguments.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="maxsim-stress-") as folder:
        folder = pathlib.Path(folder)
        storage = exact.Storage(arguments.storage, DIM)
        first = exact.Oracle(storage, "string")
        for i in range(NUM_BASE):
            first.begin_with(f"doc-{i}", rows_of([arguments.seed, i]))
        codes = ["--codes", arguments.codes] if arguments.codes else []
        first.build(arguments.programs.resolve(), folder / NAME, NAME, *codes)
        with client.Server(arguments.programs, folder, client.COMPACTS_OFTEN) as server:
            server.start()
            server.load(NAME, folder / NAME, live=True)
            stress = Stress(server, arguments.seed)
            stress.clients, stress.storage, stress.planes = arguments.clients, storage, arguments.codes
            clients = [Client(stress, number) for number in range(arguments.clients)]
            threads = [threading.Thread(target=stress.run, args=(one.step,)) for one in clients]
            threads.append(threading.Thread(target=stress.run, args=(stress.maintain, random.Random(arguments.seed))))
            for thread in threads:
                thread.start()
            stress.stop.wait(arguments.seconds)
            stress.stop.set()
            for thread in threads:
                thread.join()
            for problem in stress.problems[:3]:
                print(problem, server.log_end(2000), sep="\n", flush=True)
            if stress.problems:
                sys.exit(f"FAILED with seed {arguments.seed}")
            check_the_end(stress, clients, server)
            server.stop()
            server.start({NAME: folder / NAME})
            check_the_end(stress, clients, server)
            server.stop()
    print(dict(stress.counts))
    if stress.counts["read"] < 10 * arguments.clients or not stress.counts["compacted"]:
        sys.exit("too little was read, or nothing compacted, for this to mean something")
    if arguments.codes and not stress.counts["by codes"]:
        sys.exit("nothing was searched by codes")


if __name__ == "__main__":
    main()
