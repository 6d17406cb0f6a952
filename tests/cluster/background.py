"""Threads that ask a router continuously, and pools of requests whose correct answers are known."""

import threading
import time
import traceback

import compare
import traffic
from maxsim.v1 import documents_pb2_grpc, rerank_pb2_grpc


class Pool:
    """Random requests, with the correct answer to each for every generation of the collections. The answers come from a
    single server. `names` maps a collection's name in requests to its name on the single server, which can differ from
    generation to generation."""

    def __init__(self, single, corpora, seed, size):
        self.single = single
        source = traffic.Traffic(seed, corpora)
        self.requests = [source.right() for _ in range(size)]
        for request in self.requests:
            request.generation = 0
        self.right = {}  # (number of the request, generation): bits

    def learn(self, names=None):
        """Sends every request to the single server, and stores the answers, by request and by the generation that
        answered."""
        for number, answer in enumerate(self.answers(names or {})):
            self.right[number, answer.generation] = compare.bits(answer)

    def answers(self, names):
        asked = []
        for request in self.requests:
            copy = type(request)()
            copy.CopyFrom(request)
            copy.collection = names.get(request.collection, request.collection)
            asked.append(copy)
        found = compare.stream(self.single.reranker, asked)
        ordered = [found[request.request_id] for request in asked]
        wrong = next((one for one in ordered if isinstance(one, compare.Failure)), None)
        if wrong:
            raise AssertionError(f"the one server refuses: {wrong}")
        return ordered

    def ask(self, stubs, number, deadline_s):
        """Sends request `number` (modulo the size of the pool). Returns the request and a text that says what is wrong
        with the answer, "" if it is correct."""
        number %= len(self.requests)
        answer = compare.call(stubs.reranker.Rerank, self.requests[number], deadline_s)
        return self.requests[number], self.check(number, answer)

    def check(self, number, answer):
        """Returns what is wrong with the router's answer, or ""."""
        if isinstance(answer, compare.Failure):
            return f"{answer}"
        wanted = self.right.get((number, answer.generation))
        if wanted is None:
            return f"generation {answer.generation}, which no server was told to have"
        if compare.bits(answer) == wanted:
            return ""
        right = type(answer).FromString(wanted)
        return compare.difference(right, answer)


class Stubs:
    """The calls of a separate connection."""

    def __init__(self, node):
        channel = node.channel()
        self.reranker = rerank_pb2_grpc.RerankerStub(channel)
        self.documents = documents_pb2_grpc.DocumentsStub(channel)


class Askers:
    """Clients that call pool.ask() repeatedly until stop(), each over its own connection. `pool` is a Pool or has the
    same method. Each client pauses for `rest_s` seconds after each request."""

    def __init__(self, router, pool, clients, deadline_s, rest_s=0.002):
        self.pool, self.deadline_s, self.rest_s = pool, deadline_s, rest_s
        self.problems, self.times = [], []
        self.event = "nothing has happened"  # what was done last; reported with problems
        self.lock, self.ending = threading.Lock(), threading.Event()
        self.threads = [
            threading.Thread(target=self._guard, args=(Stubs(router), number, clients))
            for number in range(clients)
        ]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self.ending.set()
        for thread in self.threads:
            thread.join()

    def expect_no_problem(self):
        if self.problems:
            raise AssertionError(f"{len(self.problems)} requests went wrong, first\n" + "\n".join(self.problems[:3]))

    def _guard(self, *arguments):
        try:
            self._run(*arguments)
        except Exception:  # pylint: disable=broad-except  the main thread reports it
            self.problems.append(traceback.format_exc())

    def _run(self, stubs, number, step):
        while not self.ending.is_set():
            begin = time.monotonic()
            request, problem = self.pool.ask(stubs, number, self.deadline_s)
            took = time.monotonic() - begin
            with self.lock:
                self.times.append(took)
                if problem:
                    what = f"{self.event}: request {number} after {took:.3f} s: {problem}"
                    self.problems.append(f"{what}\n{compare.short(request)}")
            number += step
            self.ending.wait(self.rest_s)

    def summary(self):
        times = sorted(self.times)
        at = [round(1e3 * times[min(len(times) - 1, int(share * len(times)))], 1) for share in (0.5, 0.99, 1)]
        return f"{len(times)} requests; median, 99th percentile and longest: {at} ms"
