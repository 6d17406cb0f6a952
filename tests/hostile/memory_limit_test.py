"""Lets a maxsimd run out of memory during gRPC calls, HTTP calls and writes, under many limits of its address space.

    memory_limit_test.py FOLDER_OF_THE_PROGRAMS [unittest's arguments]

Each call must fail or be answered correctly. The server must continue or end immediately, and its log must say that
memory ran out. (gRPC 1.51 ends the process if it cannot allocate a message.) SIGTERM must end the server in any case.
"""

import http.client
import json
import pathlib
import random
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
import unittest

import grpc
from maxsimd import DIM, MIB, Limits, Maxsimd, NotReadyError, Questions, build_collection, use_package

PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
SEED = 1
# The limits to try, as differences from the address space of the idle server. With lower limits the server does not
# start. With higher limits it does not run out of memory.
FIRST_MIB, END_MIB, STEP_MIB = -32, 56, 24
LOAD_S = 2.0
# The server ends itself 13 s after a signal, by its own clock. Exit code 4 and a log line show that it did. Measuring
# these seconds in the test would depend on the speed of the machine.
STOP_LIMIT_S = 120.0
ANSWER_LIMIT_S = 120.0
# The lines of a shutdown in the log, after the time and the level.
STOPS = re.compile(r"^\S+ \S+ \S (stopping|stopped|shutdown_overdue:)", re.M)
REASONS = ("out_of_memory: ", "out_of_threads: ")
# Lengths of id lists. Each id takes about 100 bytes while in use.
NUM_IDS = (1_000, 50_000, 200_000)


class Clients:
    """Calls a server from several threads for LOAD_S, and notes wrong answers."""

    def __init__(self, server, questions):
        from maxsim.v1 import documents_pb2, documents_pb2_grpc, rerank_pb2_grpc  # generated

        self.server, self.questions = server, questions
        self.wrong, self.num_answers = [], 0
        self.end = time.monotonic() + LOAD_S
        self.rerank, self.documents = rerank_pb2_grpc.RerankerStub, documents_pb2_grpc.DocumentsStub
        self.upsert_request = documents_pb2.UpsertRequest(collection="live")
        for i in range(40):
            document = self.upsert_request.documents.add(string_id=f"new-{i}")
            document.tokens.dtype, document.tokens.num_tokens, document.tokens.dim = 2, 64, DIM
            document.tokens.data = b"\0\x3c" * 64 * DIM
        kinds = [self._ask, self._stream, self._ask_http, self._write] * 2
        self.threads = [threading.Thread(target=self._run, args=(kind, i)) for i, kind in enumerate(kinds)]

    def run(self):
        for thread in self.threads:
            thread.start()
        for thread in self.threads:
            thread.join()

    def _run(self, kind, seed):
        rng = random.Random(seed)
        while time.monotonic() < self.end and self.server.alive():
            try:
                kind(rng)
                self.num_answers += 1
            except (grpc.RpcError, OSError, http.client.HTTPException):
                pass  # refused, or the server has ended

    def _large(self, rng):
        """Returns a copy of the first request with unknown ids as further candidates."""
        request = type(self.questions.requests[0])()
        request.CopyFrom(self.questions.requests[0])
        request.candidates.string_ids.ids.extend(f"unknown-{i}" for i in range(rng.choice(NUM_IDS)))
        return request

    def _check(self, i, response):
        if found := self.questions.wrong(i, response):
            self.wrong.append(found)

    def _ask(self, rng):
        with self.server.channel() as channel:
            stub = self.rerank(channel)
            stub.Rerank(self._large(rng), timeout=10)
            i = rng.randrange(len(self.questions.requests))
            self._check(i, stub.Rerank(self.questions.requests[i], timeout=10))

    def _stream(self, rng):
        i = rng.randrange(len(self.questions.requests))
        with self.server.channel() as channel:
            asked = iter([self._large(rng), self.questions.requests[i], self._large(rng)])
            for answer in self.rerank(channel).RerankStream(asked, timeout=10):
                if answer.code == 0 and answer.response.request_id == str(i) and answer.response.results[0].scores:
                    self._check(i, answer.response)

    def _ask_http(self, rng):
        ids = [f"unknown-{i}" for i in range(rng.choice(NUM_IDS))]
        body = json.dumps({"model": "corpus", "query": [[1.0] * DIM], "documents": ["doc-1", *ids]})
        connection = http.client.HTTPConnection("127.0.0.1", self.server.http_port, timeout=10)
        try:
            connection.request("POST", "/v1/rerank", body)
            answer = connection.getresponse()
            read = answer.read()
            if answer.status == 200 and len(json.loads(read)["results"]) != 1:
                self.wrong.append(f"{answer.status} {read[:300]}")
        finally:
            connection.close()

    def _write(self, _rng):
        with self.server.channel() as channel:
            self.documents(channel).Upsert(self.upsert_request, timeout=10)


class MemoryLimitTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="maxsim-memory-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        use_package()
        self.collection = self.folder / "corpus"
        build_collection(PROGRAMS, self.collection, SEED)
        self.questions = Questions(SEED)

    def start(self, name, limits=Limits()):
        live = self.folder / f"live-{name}"
        shutil.copytree(self.collection, live)
        flags = ["--collection", f"live={live},live"]
        return Maxsimd(PROGRAMS, self.folder / name, self.collection, limits, with_tokens=False, flags=flags)

    def says_why(self, log):
        return any(reason in log for reason in REASONS)

    def answers_again(self, server):
        """Waits until the server answers on both ports, or refuses calls with RESOURCE_EXHAUSTED. Returns whether it
        did."""
        until = time.monotonic() + ANSWER_LIMIT_S
        while server.alive() and time.monotonic() < until:
            found = self.questions.ask(server, 0)
            if server.http_status("/livez") == 200 and (not found or found.startswith("RESOURCE_EXHAUSTED")):
                return True
            time.sleep(0.1)
        return False

    def try_limit(self, name, limit_bytes):
        """Runs a server under a limit. Returns what happened."""
        try:
            server = self.start(name, Limits(address_space_bytes=limit_bytes))
        except NotReadyError as error:
            self.assertIsNotNone(error.process.returncode)
            said = self.says_why(error.log) or "maxsimd does not start" in error.log
            self.assertTrue(said, f"{error.process.returncode}: {error.log}")
            return "it does not start"
        with server:
            clients = Clients(server, self.questions)
            clients.run()
            self.assertEqual(clients.wrong, [])
            if not self.answers_again(server):
                self.assertFalse(server.alive(), f"it does not answer: {server.log_end(3000)}")
            served = f"{clients.num_answers} calls answered"
            if server.alive():
                code, _ = server.stop(STOP_LIMIT_S)
                self.assertIsNotNone(code, f"it does not end: {server.log_end(3000)}")
                if code in (0, 4):
                    expected = ["stopping", "stopped" if code == 0 else "shutdown_overdue:"]
                    self.assertEqual(STOPS.findall(server.log()), expected, server.log_end(3000))
            code = server.process.wait()
            if code not in (0, 4):
                self.assertIn(code, (-signal.SIGABRT, -signal.SIGSEGV), server.log_end(3000))
                self.assertTrue(self.says_why(server.log()), f"{code}: {server.log_end(3000)}")
            return f"{served}, exit code {code}"

    def test_a_server_without_memory_refuses_or_ends_and_says_why(self):
        with self.start("unlimited") as server:
            self.questions.learn(server)
            idle_bytes = server.address_space_bytes()
        for more_mib in range(FIRST_MIB, END_MIB, STEP_MIB):
            with self.subTest(more_mib=more_mib):
                outcome = self.try_limit(f"limit{more_mib}", idle_bytes + more_mib * MIB)
                print(f"{more_mib:+} MiB: {outcome}", flush=True)


if __name__ == "__main__":
    unittest.main(verbosity=2)
