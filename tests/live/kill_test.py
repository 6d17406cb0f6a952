"""Kills maxsimd again and again while clients write and it compacts. No acknowledged write may be lost.

    kill_test.py FOLDER_OF_THE_PROGRAMS [--rounds 25] [--seed S] [--faults FOLDER_TO_COMPILE_IN] [--codes PLANES]

In each round a few writers upsert and delete while the server compacts. Each writer uses its own ids, and makes one
call at a time. The server is killed after a random number of acknowledged documents, at a random moment or, with
--faults, at one of its own calls that change files. After the restart, the effects of every acknowledged call must be
there. A unary call that was in progress must have been applied completely or not at all, a stream up to one of its
requests. Rankings must equal those of a newly built collection, with --codes also searches by codes.
"""

import argparse
import contextlib
import os
import pathlib
import random
import sys
import tempfile
import threading
import time

import grpc
import numpy as np

import faults
import oracle as exact
import server as client
from maxsim.v1 import rerank_pb2

NAME = "corpus"
DIM, NUM_BASE, WRITERS = 16, 200, 3
IDS_OF_A_WRITER = 60
FRESH_EVERY = 5  # rounds
# A kill is a useful test only after writes: at least this many documents per round, on average.
DOCUMENTS_OF_A_ROUND = 20
WRITING_LIMIT_S = 20  # a round ends with the kill after this time, however few documents were written
ENDING_LIMIT_S = 120  # seconds within which a server that killed itself must have ended


def rows_of(seed):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((int(rng.integers(1, 9)), DIM)).astype(np.float32)


class Call:
    """One write call: its kind, and either (id, vectors, payload, version) of each document or ids."""

    def __init__(self, kind, version, documents):
        self.kind, self.version, self.documents = kind, version, documents
        self.results = None  # (outcome, sequence) of each, once it is acknowledged

    def request(self):
        if self.kind == "delete":
            return client.delete_request(NAME, [id for id, *_ in self.documents], self.version)
        made = [client.document(id, rows, payload, version) for id, rows, payload, version in self.documents]
        return client.upsert_request(NAME, made)

    def apply(self, oracle, numbers):
        """Applies the call to the oracle, whose outcomes must equal the acknowledged ones. Stores in `numbers` the
        sequence of each changed id, or None if the call was not acknowledged."""
        for i, (id, rows, payload, version) in enumerate(self.documents):
            if self.kind == "delete":
                outcome = oracle.delete(id, self.version)
            else:
                outcome = oracle.upsert(id, rows, payload, version)
            got, number = self.results[i] if self.results else (outcome, None)
            assert got == outcome, f"{self.kind} of {id}: outcome {got} instead of {outcome}"
            if outcome == exact.APPLIED:
                numbers[id] = number


class Writer:
    """Makes random write calls with its own ids until a call fails. `under_way` has the calls that were sent but not
    acknowledged, in order."""

    def __init__(self, number, seed):
        self.number, self.chooser = number, random.Random(seed)
        self.acknowledged, self.under_way = [], []
        self.count = 0
        # Other threads read these.
        self.documents = 0  # how many the acknowledged calls have
        self.problem = ""  # the error of the call that failed

    def _call(self):
        chooser = self.chooser
        self.count += 1
        ids = [self.id_of(chooser.randrange(IDS_OF_A_WRITER)) for _ in range(chooser.choice([1, 1, 3, 8]))]
        version = chooser.choice([0, 0, 0, chooser.randrange(1, 50)])
        if chooser.random() < 0.25:
            return Call("delete", version, [(id, None, "", version) for id in ids])
        made = []
        for i, id in enumerate(ids):
            seed = chooser.randrange(1 << 40)
            payload = f'{{"w":{self.number},"n":{self.count},"i":{i}}}' if chooser.random() < 0.7 else ""
            made.append((id, rows_of(seed), payload, version))
        return Call("upsert", 0, made)

    def id_of(self, k):
        # The first ids are of documents that the collection had at the start. All others are new.
        return f"doc-{k * WRITERS + self.number}" if k < NUM_BASE // WRITERS else f"new-{self.number}-{k}"

    def run(self, server):
        stub = server.documents
        try:
            while True:
                if self.chooser.random() < 0.1:
                    calls = [call for call in (self._call() for _ in range(5)) if call.kind == "upsert"]
                    self.under_way = calls
                    stub.UpsertStream(iter([call.request() for call in calls]), timeout=60)
                else:
                    self.under_way = calls = [self._call()]
                    send = stub.Delete if calls[0].kind == "delete" else stub.Upsert
                    answer = send(calls[0].request(), timeout=60)
                    calls[0].results = [(one.outcome, one.sequence) for one in answer.results]
                self.acknowledged += calls
                self.documents += sum(len(call.documents) for call in calls)
                self.under_way = []
        except (grpc.RpcError, ValueError) as error:  # gRPC raises ValueError for a channel that was closed
            self.problem = str(error)


class Kills:
    """The collection, what it must hold, and its server."""

    def __init__(self, programs, folder, seed, fault_control, planes):
        self.programs, self.folder = programs, pathlib.Path(folder)
        self.chooser = random.Random(seed)
        self.faults = fault_control
        self.path = self.folder / NAME
        environment = fault_control.environment(self.path) if fault_control else {}
        self.server = client.Server(programs, self.folder, client.COMPACTS_OFTEN, environment)
        self.oracle = exact.Oracle(exact.Storage(self.chooser.choice(["f16", "i8"]), DIM), "string")
        for i in range(NUM_BASE):
            self.oracle.begin_with(f"doc-{i}", rows_of([seed, i // 2]))
        self.planes = planes
        self.oracle.build(programs, self.path, NAME, *self._codes())
        self.counts = {"calls": 0, "documents": 0, "under way": 0, "carried out": 0, "own": 0}

    def _codes(self):
        return ["--codes", self.planes] if self.planes else []

    def first_start(self):
        self.server.start()
        self.server.load(NAME, self.path, live=True)

    def _compactions(self):
        while self.server.alive():
            with contextlib.suppress(grpc.RpcError, ValueError):
                self.server.compact(NAME)
            time.sleep(self.chooser.random() * 0.05)

    def _wait_for_documents(self, writers, number):
        """Waits until a random number of documents is acknowledged, so that as many writes precede a kill on a slow
        machine as on a fast one. The number is larger if earlier rounds had fewer documents than DOCUMENTS_OF_A_ROUND
        on average."""
        lacking = DOCUMENTS_OF_A_ROUND * (number + 1) - self.counts["documents"]
        wanted = max(self.chooser.randrange(4 * DOCUMENTS_OF_A_ROUND), lacking)
        until = time.monotonic() + WRITING_LIMIT_S
        while sum(one.documents for one in writers) < wanted and self.server.alive() and time.monotonic() < until:
            time.sleep(0.002)

    def write_and_kill(self, number, seed):
        """Returns the writers, whose calls ended with the server."""
        writers = [Writer(number, seed * 10 + number) for number in range(WRITERS)]
        threads = [threading.Thread(target=one.run, args=(self.server,)) for one in writers]
        threads.append(threading.Thread(target=self._compactions))
        for thread in threads:
            thread.start()
        self._wait_for_documents(writers, number)
        if self.faults and self.chooser.random() < 0.5:
            self.faults.kill_after(self.chooser.randrange(1, 300))
            self.counts["own"] += 1
            until = time.monotonic() + 1
            while self.server.alive() and time.monotonic() < until:
                time.sleep(0.002)
        else:
            time.sleep(self.chooser.random() ** 2 * 0.3)
        # If the server killed itself, a call may fail some time before the system reports that the server has ended.
        problems = [one.problem for one in writers if one.problem]
        until = time.monotonic() + ENDING_LIMIT_S
        while problems and self.server.alive() and time.monotonic() < until:
            time.sleep(0.002)
        alive = self.server.alive()
        self.server.kill()
        if not alive and self.server.process.returncode != -9:
            raise AssertionError(f"maxsimd ended by itself with {self.server.process.returncode}")
        for thread in threads:
            thread.join()
        if self.faults:
            self.faults.kill_after(0)
        if problems and alive:
            raise AssertionError(f"a call failed while the server ran: {problems[0]}")
        return writers

    def stored(self):
        """Returns the stored documents by id, and all ids in the order of their ordinals."""
        sequence = self.server.info(NAME).live.sequence
        ids = {f"doc-{i}" for i in range(NUM_BASE)}
        ids |= {Writer(w, 0).id_of(k) for w in range(WRITERS) for k in range(IDS_OF_A_WRITER)}
        response = self.server.get(client.get_request(NAME, sorted(ids), return_tokens=True))
        assert response.sequence == sequence, f"sequence {response.sequence} after {sequence}, and nobody writes"
        request = client.rerank_request(NAME, rows_of(1), top_k=10_000, min_sequence=sequence)
        ranking = client.Ranking(self.server.rerank(request).results[0])
        order = sorted(zip(ranking.positions, ranking.ids))
        return {one.string_id: one for one in response.documents}, [id for _, id in order], sequence

    def _holds(self, stored, id, expected):
        """Returns whether the server's document of an id equals the oracle's."""
        if (id in stored) != (id in expected.documents):
            return False
        if id not in stored:
            return True
        one, wanted = stored[id], expected.documents[id]
        return (
            one.tokens.data == wanted.elements.tobytes()
            and one.scale == float(wanted.scale)
            and one.payload == wanted.payload
            and one.version == expected.versions.get(id, 0)
        )

    def settle(self, writers):
        """Determines which of the calls in progress were applied, and applies these to the oracle."""
        stored, order, sequence = self.stored()
        numbers = {}  # the sequence of each id's last write, where it is known
        highest = 0
        for writer in writers:
            mine = [writer.id_of(k) for k in range(IDS_OF_A_WRITER)]
            for call in writer.acknowledged:
                call.apply(self.oracle, numbers)
                highest = max([highest, *(number for _, number in call.results or [])])
            tried = []
            for done in range(len(writer.under_way) + 1):
                if done:
                    writer.under_way[done - 1].apply(self.oracle, numbers)
                wrong = [id for id in mine if not self._holds(stored, id, self.oracle)]
                tried.append(wrong)
                if not wrong:
                    break
            else:
                self._fail(writer, tried, stored)
            self.counts["carried out"] += done
            self.counts["under way"] += len(writer.under_way)
            self.counts["calls"] += len(writer.acknowledged)
            self.counts["documents"] += writer.documents
        assert sequence >= highest, f"the collection is at sequence {sequence}, and {highest} was acknowledged"
        self._settle_order(order, numbers, stored)
        self.oracle.sequence = sequence

    def _fail(self, writer, tried, stored):
        fewest = min(tried, key=len)
        lines = [
            f"writer {writer.number}: after {len(writer.acknowledged)} acknowledged calls, no number of the "
            f"{len(writer.under_way)} under way explains what is stored of {len(fewest)} ids and more:"
        ]
        for id in fewest[:5]:
            one, wanted = stored.get(id), self.oracle.documents.get(id)
            has = f"payload {one.payload!r}, version {one.version}, sequence {one.sequence}" if one else "nothing"
            lines.append(f"  {id}: {has}; expected with all of them: {wanted.payload if wanted else 'nothing'!r}")
        raise AssertionError("\n".join(lines))

    def _settle_order(self, order, numbers, stored):
        """Checks that the collection's order is the order of the sequences of writes. For calls that were in progress,
        the sequences are unknown, so the oracle adopts the server's order."""
        documents = self.oracle.documents
        assert sorted(order) == sorted(documents), "a scan has other documents than the calls made"
        untouched = [id for id in order if id not in numbers]
        assert untouched == [id for id in documents if id not in numbers], "documents that nobody wrote changed places"
        assert order[: len(untouched)] == untouched, "a document that was written stands before one that was not"
        known = [numbers[id] for id in order if numbers.get(id)]
        assert known == sorted(known), "documents are not in the order of their sequences"
        for id in order:
            if stored[id].sequence and numbers.get(id):
                assert stored[id].sequence == numbers[id], (
                    f"{id} has the sequence {stored[id].sequence}, not {numbers[id]}"
                )
        self.oracle.documents = {id: documents[id] for id in order}
        self.oracle.reset()

    def check(self, seed, fresh):
        """Compares rankings with those of the oracle and, if `fresh`, with those of a new collection built from the
        oracle."""
        names = [NAME]
        path = self.folder / f"fresh-{seed}"
        if fresh:
            self.oracle.build(self.programs, path, "fresh", *self._codes())
            self.server.load("fresh", path)
            names.append("fresh")
        ids = self.oracle.order()
        for top_k in (len(ids), 7):
            rows = rows_of([seed, top_k])
            essences = []
            for name in names:
                answer = self.server.rerank(client.rerank_request(name, rows, top_k=top_k))
                ranking = client.Ranking(answer.results[0])
                query = self.oracle.storage.query(rows)
                found = exact.check_result(ranking, ids, self.oracle.whole(), query, top_k, None, {})
                assert not found, f"{name}: {found}"
                essences.append(ranking.essence())
                self._check_codes(name, rows, ranking)
            assert essences[0] == essences[-1], "a scan differs from that of a collection that is built anew"
        if fresh:
            self.server.unload("fresh")

    def _check_codes(self, name, rows, ranking):
        """Checks that a search by codes with a proven answer gives the exact ranking."""
        if not self.planes:
            return
        assert ranking.refinement is None, "an exact search scanned codes"
        request = client.rerank_request(name, rows, top_k=5, refinement=client.proven(9))
        found = client.Ranking(self.server.rerank(request).results[0])
        assert found.refinement is not None and found.refinement.planes == self.planes, f"{name}: {found.refinement}"
        assert found.refinement.certificate == rerank_pb2.CERTIFICATE_PROVEN, f"{name}: {found.refinement}"
        wanted = [one[:5] for one in ranking.essence()]
        assert list(found.essence()) == wanted, f"{name}: {found.essence()} by codes instead of {wanted}"

    def round(self, number, seed):
        writers = self.write_and_kill(number, seed)
        self.server.start({NAME: self.path})
        info = self.server.info(NAME)
        assert info.state == rerank_pb2.COLLECTION_STATE_READY, f"not served after the kill: {info.error}"
        self.settle(writers)
        self.check(seed, number % FRESH_EVERY == 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=int(os.environ.get("MAXSIM_LIVE_KILLS", 25)))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("MAXSIM_TEST_SEED", "1")))
    parser.add_argument("--codes", type=int, default=0, help="planes of codes that the collection has")
    parser.add_argument("--faults", type=pathlib.Path, help="lets the server be killed at calls that change files")
    arguments = parser.parse_args()
    print(f"MAXSIM_TEST_SEED={arguments.seed}", flush=True)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="maxsim-kills-") as folder:
        control = faults.Faults(arguments.faults) if arguments.faults else None
        kills = Kills(arguments.programs.resolve(), folder, arguments.seed, control, arguments.codes)
        with kills.server:
            kills.first_start()
            for number in range(arguments.rounds):
                try:
                    kills.round(number, arguments.seed + number)
                except (AssertionError, RuntimeError, grpc.RpcError) as error:
                    print(f"FAILED in round {number} with seed {arguments.seed}: {error}", flush=True)
                    print(kills.server.log_end(), flush=True)
                    raise
                if number % 100 == 99:
                    print(f"{number + 1} rounds: {kills.counts}", flush=True)
            kills.server.stop()
    seconds = time.monotonic() - begin
    print(f"{arguments.rounds} rounds in {seconds:.1f} s: {kills.counts}")
    if kills.counts["documents"] < DOCUMENTS_OF_A_ROUND * arguments.rounds:
        sys.exit("the writers wrote too little for the kills to mean something")


if __name__ == "__main__":
    main()
