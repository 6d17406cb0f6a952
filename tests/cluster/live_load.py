"""Writers and readers of a live collection that use routers, and checks of the answers. `world` is a World of
live_world.py."""

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
from maxsim.v1 import documents_pb2, documents_pb2_grpc, rerank_pb2
from numbered import query_vectors

NUMBERS, QUERIES = 60, 12  # numbers of different vectors of documents and of queries
ALL = 10_000  # results
PATIENCE_S = 240  # how long a busy machine may take
# A replica refuses a write that arrives more than EXPIRY_S after the router sent it. The client waits longer than that,
# so that the client gets the router's error and not its own timeout.
EXPIRY_S, WRITE_LIMIT_S = 10, 15
READ_LIMIT_S, SEQUENCE_LIMIT_S, BEHIND_LIMIT_S, BEHIND_REST_S = 20, 30, 1, 0.02
PREPARED = 1000  # questions of readers
RETRIABLE = UNAVAILABLE, DEADLINE_EXCEEDED = 14, 4
RECONNECTS_SOON = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 500)]


def is_behind(answer):
    """Returns whether a read failed because the cluster has not reached the request's min_sequence yet."""
    return isinstance(answer, compare.Failure) and answer.said.reason == "SEQUENCE_NOT_REACHED"


class Connections:
    """The connections of one client, one to each router. Calls go to one router and, after it went down, to the next.
    `moved` says whether the last call failed because its router went down."""

    def __init__(self, world, first):
        routers = world.cluster.routers
        self.world, self.at, self.moved = world, first % len(routers), False
        self.channels = [client.connect(node.target, *RECONNECTS_SOON) for node in routers]
        self.methods = [self._methods(channel) for channel in self.channels]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for channel in self.channels:
            channel.close()

    def name(self):
        return self.world.cluster.routers[self.at].name

    @staticmethod
    def _methods(channel):
        """Returns functions for calls, by name. Reads return the raw bytes of the answer, because parsing 100,000
        answers would slow the clients down."""
        documents = documents_pb2_grpc.DocumentsStub(channel)
        reads = {
            "rerank": ("/maxsim.v1.Reranker/Rerank", rerank_pb2.RerankRequest),
            "get": ("/maxsim.v1.Documents/Get", documents_pb2.GetRequest),
        }
        return {"upsert": documents.Upsert, "delete": documents.Delete} | {
            name: channel.unary_unary(path, request_serializer=kind.SerializeToString)
            for name, (path, kind) in reads.items()
        }

    def call(self, method, request, timeout_s):
        """Returns the answer or a Failure."""
        begin = time.monotonic()
        answer = compare.call(self.methods[self.at][method], request, timeout_s)
        self.moved = isinstance(answer, compare.Failure) and self.world.router_was_down(self.at, begin)
        if self.moved:
            self.at = (self.at + 1) % len(self.methods)
        return answer


class Clients:
    """Threads that call step() until the end of the with-statement. step() makes a call and returns how many documents
    or requests the call had. All threads together send `rate` of them per second. `calls` records (begin, end, status
    code, number) of each call."""

    def __init__(self, world, seed, rate, count):
        self.world, self.rate, self.count = world, rate, count
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
        except Exception as error:  # pylint: disable=broad-except  the main thread reports it
            self.problems.append(f"{error}\n{traceback.format_exc()}")

    def _run(self, chooser, number):
        with Connections(self.world, number) as connections:
            due = time.monotonic()
            while not self.ending.is_set():
                items = self.step(connections, chooser, number)
                # A client that is more than 0.5 s late does not catch up.
                due = max(due + items * self.count / self.rate, time.monotonic() - 0.5)
                self.ending.wait(max(0, due - time.monotonic()))

    def expect_no_problem(self):
        if self.problems:
            raise AssertionError(f"{len(self.problems)} calls went wrong, first: " + "\n".join(self.problems[:3]))

    def since(self, moment):
        """Returns how many items were in successful calls that began after this moment."""
        items = 0
        for begin, end, code, number in reversed(self.calls):
            if end < moment:
                break
            items += number if code == 0 and begin >= moment else 0
        return items


class Writers(Clients):
    """Clients that write documents. `share_versioned` is the fraction of upserts and deletes with a version. A call may
    fail with one of `codes`. `numbers` makes payloads different. Writers that share a ledger must share it."""

    def __init__(
        self, world, ledger, seed, rate, count, share_versioned=0.4, codes=RETRIABLE, numbers=None
    ):
        super().__init__(world, seed, rate, count)
        self.ledger, self.share_versioned, self.codes = ledger, share_versioned, codes
        self.numbers = numbers or itertools.count(1)

    def step(self, connections, chooser, number):
        writes, request = self._make(chooser, number)
        self.ledger.add(writes)
        begin = time.monotonic()
        for one in writes:
            one.begun = begin
        answer = connections.call("upsert" if writes[0].payload else "delete", request, WRITE_LIMIT_S)
        end = time.monotonic()
        code = answer.code if isinstance(answer, compare.Failure) else 0
        if code == 0:
            self.ledger.acknowledge(writes, answer)
        elif code in self.codes:
            # If the router did not answer, a replica may still apply the write for up to EXPIRY_S.
            self.ledger.fail(writes, end + (EXPIRY_S if connections.moved or code == DEADLINE_EXCEEDED else 0))
        else:
            raise AssertionError(f"a write failed with {answer}")
        self.calls.append((begin, end, code, len(writes)))
        return len(writes)

    def wait_written(self, count=20, since=None):
        """Waits until `count` documents that were sent after `since` (default: now) are acknowledged."""
        begin = time.monotonic()
        since = begin if since is None else since
        while (written := self.since(since)) < count:
            self.expect_no_problem()
            assert time.monotonic() < begin + PATIENCE_S, f"{written} of {count} writes succeeded in {PATIENCE_S} s"
            time.sleep(0.01)

    def _version(self, chooser):
        """Returns the version for a write: mostly 0 (no version), sometimes a version that is older than those of other
        writes."""
        number = next(self.numbers)
        if chooser.random() >= self.share_versioned:
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
            client.document(one.id, history.vectors_of(one.number, self.world.ids.dim), one.payload, one.version)
            for one in writes
        ]
        return writes, client.upsert_request(name, made)


class Questions:
    """Makes the readers' requests, and checks the answers after the test has read the stream."""

    def __init__(self, world, ledger, seed):
        self.world, self.ledger, self.seed = world, ledger, seed
        self.scores = world.scores()
        self.answers = []  # (request, query, answer); appending is atomic
        self.counts = collections.Counter()

    def make(self, chooser, gets=0.3, scans=0.35, with_tokens=True):
        """Returns the method's name in Connections, the request, and the number of its query. A fraction `gets` of the
        requests reads documents, a fraction `scans` ranks the whole collection, and the others rank a list of ids."""
        query, kind = chooser.randrange(QUERIES), chooser.random()
        ids = [self.world.ids.id_of(k) for k in chooser.sample(range(self.world.ids.size), chooser.choice([1, 5, 40]))]
        if kind < gets:
            return "get", client.get_request(self.world.name, ids, return_tokens=with_tokens), query
        fields = {}
        if kind < gets + scans:
            # The router must fail this request rather than leave out documents.
            ids, fields["missing_policy"] = None, rerank_pb2.MISSING_POLICY_FAIL
        rows = query_vectors(query, self.world.ids.dim)
        request = client.rerank_request(self.world.name, rows, ids, top_k=ALL, return_payloads=True, **fields)
        return "rerank", request, query

    def ask(self, stubs, number, deadline_s):
        """Sends a request and stores its answer for a later check. Returns the request, and the error if the call
        failed."""
        chooser = random.Random(f"{self.seed}-{number}")
        method, request, query = self.make(chooser)
        request.min_sequence = self.ledger.newest if chooser.random() < 0.5 else 0
        call = stubs.documents.Get if method == "get" else stubs.reranker.Rerank
        answer = self._call(call, request, deadline_s)
        if isinstance(answer, compare.Failure):
            return request, str(answer)
        self.answers.append((request, query, answer))
        return request, ""

    def _call(self, call, request, deadline_s):
        """Makes a call. Repeats it while the server answers that it has not reached the request's min_sequence yet."""
        until = time.monotonic() + SEQUENCE_LIMIT_S
        while True:
            answer = compare.call(call, request, deadline_s)
            if not is_behind(answer) or time.monotonic() > until:
                return answer
            self.counts["behind"] += 1
            time.sleep(BEHIND_REST_S)

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
            found, details = self._of_documents(request, answer)
        moments = known.moments(found, answer.sequence)
        oldest = min(moments.values())
        assert oldest == answer.sequence, f"groups answered of {moments}, none of them of {answer.sequence}"
        details(moments, query)
        self.counts["mixed"] += len(set(moments.values())) > 1

    def _of_ranking(self, known, request, answer):
        """Returns the payloads of the answer by id, and a function that checks the scores. The function needs the
        sequence of each group, which is determined later."""
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

    def _of_documents(self, request, answer):
        found = {client.stored_id(one): one.payload for one in answer.documents}
        found.update(dict.fromkeys(client.missing_ids(answer), ""))
        self.counts["gets"] += 1

        def details(moments, _):
            for one in answer.documents:
                self.check_stored(one, request.return_tokens)

        return found, details

    def check_stored(self, one, has_tokens=True):
        """Compares a stored document with the write that its payload names."""
        write = self.ledger.upserts.get(one.payload)
        what = f"{client.stored_id(one)!r}, {one.payload},"
        if has_tokens:
            number = write.number if write else self.world.numbers[client.stored_id(one)]
            vectors = history.vectors_of(number, self.world.ids.dim)
            document = exact.Document(self.world.oracle.storage, vectors)
            assert one.tokens.data == document.elements.tobytes() and one.scale == document.scale, (
                f"{what} has other vectors"
            )
        version, sequence = (write.version, write.found) if write else (0, 0)
        assert one.version == version, f"{what} has the version {one.version} instead of {version}"
        assert one.sequence in (sequence, 0), f"{what} has the sequence {one.sequence} instead of {sequence}"


class Readers(Clients):
    """Clients that send requests, and store every answer for a later check. Failed reads are added to `problems`. If a
    read fails because its router went down, the client asks another router instead. `event` names the latest event of
    the test. With `may_be_behind`, a client gives up a read if its min_sequence is not reached soon."""

    def __init__(self, world, questions, seed, rate, count, may_be_behind=False):
        super().__init__(world, seed, rate, count)
        self.questions, self.may_be_behind = questions, may_be_behind
        chooser = random.Random(seed)
        self.prepared = [questions.make(chooser, 0.3, 0.1, with_tokens=False) for _ in range(PREPARED)]
        self.kept = []  # (index of the question, min_sequence, bytes of the answer)
        self.event = "nothing has happened"

    def step(self, connections, chooser, number):
        index = chooser.randrange(len(self.prepared))
        method, question, _ = self.prepared[index]
        request = type(question)()
        request.CopyFrom(question)
        request.min_sequence = self.questions.ledger.newest if chooser.random() < 0.5 else 0
        begin = asked = time.monotonic()
        while True:
            answer = connections.call(method, request, READ_LIMIT_S)
            end = time.monotonic()
            if not connections.moved and not is_behind(answer):
                break
            if self.ending.is_set() or (self.may_be_behind and end - asked > BEHIND_LIMIT_S):
                self.questions.counts["given up"] += 1
                return 1
            if end - asked > SEQUENCE_LIMIT_S:
                break
            self.questions.counts["router lost" if connections.moved else "behind"] += 1
            self.ending.wait(BEHIND_REST_S)
            if not connections.moved:
                begin = time.monotonic()  # the time of each call counts, not that of the wait for min_sequence
        failed = isinstance(answer, compare.Failure)
        self.calls.append((begin, end, answer.code if failed else 0, 1))
        if failed:
            what = f"{self.event}: a read through {connections.name()} after {end - begin:.3f} s: {answer}"
            self.problems.append(f"{what}\n{compare.short(request)}")
        else:
            self.kept.append((index, request.min_sequence, answer))
        return 1

    def check(self, known):
        """Compares the kept answers with the history."""
        self.questions.check(known, self._parsed())

    def _parsed(self):
        kinds = {"rerank": rerank_pb2.RerankResponse, "get": documents_pb2.GetResponse}
        for index, min_sequence, data in self.kept:
            method, question, query = self.prepared[index]
            request = type(question)()
            request.CopyFrom(question)
            request.min_sequence = min_sequence
            yield request, query, kinds[method].FromString(data)
