"""Writers and readers of a live collection behind a router, and checks of the answers.

`world` is that of live_chaos_test.py: the cluster, the name of the collection, its ids, and the oracle of its initial
documents."""

import collections
import itertools
import random
import threading
import time
import traceback

import compare
import corpus
import history
import oracle as exact
import server as client
from background import Stubs
from maxsim.v1 import rerank_pb2
from numbered import query_vectors, vectors

NUMBERS, QUERIES = 60, 12  # numbers of different vectors of documents and of queries
ALL = 10_000  # results
WRITE_LIMIT_S, SEQUENCE_LIMIT_S = 10, 30
UNAVAILABLE, DEADLINE_EXCEEDED = 14, 4


class Writers:
    """Threads that write through the router until stop(), together `rate` documents per second. `calls` has the begin,
    the end and the status code of each call."""

    def __init__(self, world, ledger, seed, rate, count):
        self.world, self.ledger, self.rate, self.count = world, ledger, rate, count
        self.numbers = itertools.count(1)
        self.calls, self.problems = [], []
        self.ending = threading.Event()
        self.threads = [
            threading.Thread(target=self._guard, args=(random.Random(seed * 100 + i), i)) for i in range(count)
        ]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ending.set()
        for thread in self.threads:
            thread.join()

    def _guard(self, chooser, number):
        try:
            self._run(chooser, number)
        except Exception:  # pylint: disable=broad-except  the main thread reports it
            self.problems.append(traceback.format_exc())

    def _run(self, chooser, number):
        stubs = Stubs(self.world.cluster.router)
        due = time.monotonic()
        while not self.ending.is_set():
            writes, request = self._make(chooser, number)
            self.ledger.add(writes)
            send = stubs.documents.Upsert if writes[0].payload else stubs.documents.Delete
            begin = time.monotonic()
            for one in writes:
                one.begun = begin
            answer = compare.call(send, request, WRITE_LIMIT_S)
            failed = isinstance(answer, compare.Failure)
            self.calls.append((begin, time.monotonic(), answer.code if failed else 0))
            if not failed:
                self.ledger.acknowledge(writes, answer)
            elif answer.code not in (UNAVAILABLE, DEADLINE_EXCEEDED):
                raise AssertionError(f"a write failed with {answer}")
            else:
                self.ledger.fail(writes, time.monotonic())
            # A writer that is more than 0.5 s late does not catch up.
            due = max(due + len(writes) * self.count / self.rate, time.monotonic() - 0.5)
            self.ending.wait(max(0, due - time.monotonic()))

    def _version(self, chooser):
        """Returns the version for a write: mostly 0 (none), sometimes a version that is older than those of other
        writes."""
        number = next(self.numbers)
        if chooser.random() < 0.6:
            return 0
        return 1000 * max(1, number - chooser.choice([0, 0, 0, chooser.randrange(40)])) + number % 1000

    def _make(self, chooser, writer):
        name = self.world.name
        ids = [
            self.world.ids.id_of(chooser.randrange(self.world.ids.size)) for _ in range(chooser.choice([1, 2, 4, 8]))
        ]
        if chooser.random() < 0.15:
            version, ids = self._version(chooser), list(dict.fromkeys(ids))
            return [history.Write(id, 0, "", version) for id in ids], client.delete_request(name, ids, version)
        writes = []
        for id in ids:
            payload = f'{{"w":{writer},"n":{next(self.numbers)}}}'
            writes.append(history.Write(id, chooser.randrange(NUMBERS), payload, self._version(chooser)))
        made = [
            client.document(one.id, vectors(one.number, self.world.ids.dim), one.payload, one.version)
            for one in writes
        ]
        return writes, client.upsert_request(name, made)


class Questions:
    """Asks the readers' questions. A failed call is reported immediately. Answers are kept, and checked after the test
    has read the stream."""

    def __init__(self, world, ledger, seed):
        self.world, self.ledger, self.seed = world, ledger, seed
        self.scores = world.scores()
        self.answers = []  # (request, query, answer); appending is atomic
        self.counts = collections.Counter()

    def ask(self, stubs, number, deadline_s):
        chooser = random.Random(f"{self.seed}-{number}")
        query = chooser.randrange(QUERIES)
        ids = [self.world.ids.id_of(k) for k in chooser.sample(range(self.world.ids.size), chooser.choice([1, 5, 40]))]
        fields = {"min_sequence": self.ledger.newest if chooser.random() < 0.5 else 0}
        if chooser.random() < 0.3:
            request, call = client.get_request(self.world.name, ids, return_tokens=True, **fields), stubs.documents.Get
        else:
            fields |= {"return_payloads": True}
            if chooser.random() < 0.5:
                # Ranks the whole collection. The router must fail this request rather than leave out documents.
                ids, fields["missing_policy"] = None, rerank_pb2.MISSING_POLICY_FAIL
            request = client.rerank_request(
                self.world.name, query_vectors(query, self.world.ids.dim), ids, top_k=ALL, **fields
            )
            call = stubs.reranker.Rerank
        answer = self._call(call, request, deadline_s)
        if isinstance(answer, compare.Failure):
            return request, str(answer)
        self.answers.append((request, query, answer))
        return request, ""

    def _call(self, call, request, deadline_s):
        """Makes a call. Repeats it while the server answers that it has not reached min_sequence yet, as clients
        should."""
        until = time.monotonic() + SEQUENCE_LIMIT_S
        while True:
            answer = compare.call(call, request, deadline_s)
            is_behind = isinstance(answer, compare.Failure) and answer.code == UNAVAILABLE
            is_behind = is_behind and request.min_sequence and "min_sequence" in answer.message
            if not is_behind or time.monotonic() > until:
                return answer
            self.counts["behind"] += 1
            time.sleep(0.02)

    def check(self, known, answers):
        for request, query, answer in answers:
            try:
                self._check(known, request, query, answer)
            except AssertionError as error:
                raise AssertionError(f"{error}\n{compare.short(request)}\n{compare.short(answer)}") from error

    def _check(self, known, request, query, answer):
        assert answer.sequence >= request.min_sequence, f"sequence {answer.sequence} under {request.min_sequence}"
        if hasattr(answer, "results"):
            assert not answer.unavailable_groups, f"without {list(answer.unavailable_groups)}"
            found, details = self._of_ranking(known, request, answer)
        else:
            found, details = self._of_documents(answer)
        moments = known.moments(found, answer.sequence)
        oldest = min(moments.values())
        assert oldest == answer.sequence, f"groups answered of {moments}, none of them of {answer.sequence}"
        details(moments, query)
        self.counts["mixed"] += len(set(moments.values())) > 1

    def _of_ranking(self, known, request, answer):
        """Returns the payloads by id, and a function that checks the scores when the sequences of the groups are
        known."""
        ranking = client.Ranking(answer.results[0])
        whole = request.candidates.WhichOneof("kind") == "whole_collection"
        asked = known.ids() if whole else self._asked(request.candidates)
        found = {**dict.fromkeys(asked, ""), **dict(zip(ranking.ids, ranking.payloads))}
        assert len(set(ranking.ids)) == len(ranking.ids), "a document is ranked twice"
        missing = [] if whole else [id for id in asked if not found[id]]
        self.counts["scans" if whole else "lists"] += 1

        def details(moments, query):
            assert ranking.missing == missing, f"{ranking.missing} are said to be missing, and {missing} are"
            for id, score, position in zip(ranking.ids, ranking.scores, ranking.positions):
                _, number, place = known.state(id, moments[corpus.part_of(id, known.parts)])
                right = self.scores[query][number]
                assert score == right, f"{id!r} has the score {score!r}, and {right!r} on one server"
                place = place if whole else asked.index(id)
                assert position == place, f"{id!r} has the position {position} instead of {place}"
            keys = [(-score, position) for score, position in zip(ranking.scores, ranking.positions)]
            assert keys == sorted(keys), "the ranking is not by score and then by position"

        return found, details

    @staticmethod
    def _asked(owner):
        return list(owner.int_ids.ids if owner.WhichOneof("kind") == "int_ids" else owner.string_ids.ids)

    def _of_documents(self, answer):
        found = {client.stored_id(one): one.payload for one in answer.documents}
        found.update(dict.fromkeys(client.missing_ids(answer), ""))
        self.counts["gets"] += 1

        def details(moments, _):
            for one in answer.documents:
                self.check_stored(one)

        return found, details

    def check_stored(self, one):
        """Compares a stored document with the write that its payload names."""
        write = self.ledger.upserts.get(one.payload)
        number = write.number if write else self.world.numbers[client.stored_id(one)]
        document = exact.Document(self.world.oracle.storage, vectors(number, self.world.ids.dim))
        what = f"{client.stored_id(one)!r}, {one.payload},"
        assert one.tokens.data == document.elements.tobytes() and one.scale == document.scale, (
            f"{what} has other vectors"
        )
        version, sequence = (write.version, write.found) if write else (0, 0)
        assert one.version == version, f"{what} has the version {one.version} instead of {version}"
        assert one.sequence in (sequence, 0), f"{what} has the sequence {one.sequence} instead of {sequence}"
