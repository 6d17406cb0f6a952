"""Makes collections of random documents with exact scores, runs a maxsimd that serves them, and runs servers in this
process."""

import asyncio
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import grpc
import numpy as np

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TESTS / "support"), str(TESTS / "service")]
from program_fixture import Maxsimd  # noqa: E402
from python_package import use_package  # noqa: E402

use_package()
DIM = 48


class RandomCollection:
    """Random ragged documents, and their exact scores."""

    def __init__(self, seed, num_documents, int_ids):
        rng = np.random.default_rng(seed)
        self.lengths = rng.integers(1, 40, num_documents).astype(np.int32)
        tokens = rng.standard_normal((self.lengths.sum(), DIM))
        self.tokens = (tokens / np.linalg.norm(tokens, axis=1, keepdims=True)).astype(np.float16)
        self.offsets = np.concatenate([[0], np.cumsum(self.lengths)])
        self.ids = [1000 - 7 * i if int_ids else f"doc/{i:03}" for i in range(num_documents)]
        self.int_ids = int_ids

    def build(self, programs, folder, name, storage):
        """Writes the inputs and runs maxsim-shard; returns the collection's folder."""
        source, target = folder / f"{name}-source", folder / name
        source.mkdir()
        np.save(source / "tokens.npy", self.tokens)
        np.save(source / "lengths.npy", self.lengths)
        with open(source / "docs.jsonl", "w", encoding="utf-8") as file:
            for i in self.ids:
                file.write(json.dumps({"id": i, "title": f"Título {i}"}) + "\n")
        command = [programs / "maxsim-shard", "build", "--tokens", source / "tokens.npy", "--lengths"]
        command += [source / "lengths.npy", "--ids", source / "docs.jsonl", "--output", target, "--name", name]
        command += ["--storage", storage, "--id-type", "int64" if self.int_ids else "string", "--quiet"]
        subprocess.run(list(map(str, command)), check=True)
        return target

    def document(self, ordinal):
        return self.tokens[self.offsets[ordinal] : self.offsets[ordinal + 1]].astype(np.float64)

    def scores(self, query, weights=None):
        """Returns the FP64 MaxSim score with each document, and for each the magnitude to which the score's error is
        relative."""
        query = np.asarray(query, np.float64)
        weights = np.ones(len(query)) if weights is None else np.asarray(weights, np.float64)
        scores, magnitudes = [], []
        for ordinal in range(len(self.ids)):
            document = self.document(ordinal)
            scores.append(np.dot(weights, (query @ document.T).max(axis=1)))
            magnitudes.append(np.dot(np.abs(weights), (np.abs(query) @ np.abs(document).T).max(axis=1)))
        return np.array(scores), np.array(magnitudes)


class RealServerTest(unittest.TestCase):
    """Tests with a maxsimd that serves two collections of random documents: "text" (string ids, f16, payloads) and
    "numbers" (integer ids, f32)."""

    programs = None  # the folder of the programs, which a test's main sets

    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="maxsim-python-")
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        cls.text = RandomCollection(seed=1, num_documents=90, int_ids=False)
        cls.numbers = RandomCollection(seed=2, num_documents=60, int_ids=True)
        cls.collections = {
            "text": cls.text.build(cls.programs, cls.folder, "text", "f16"),
            "numbers": cls.numbers.build(cls.programs, cls.folder, "numbers", "f32"),
        }
        cls.server = Maxsimd(cls.programs, cls.folder / "server", cls.collections)
        cls.addClassCleanup(cls.server.stop)
        rng = np.random.default_rng(3)
        cls.queries = [rng.standard_normal((n, DIM)).astype(np.float16) for n in (1, 7, 32)]

    def expect(self, collection, ranking, query, ordinals, top_k, weights=None):
        """Checks that the ranking has the best `top_k` of the documents `ordinals` by FP64, in order. The error of each
        score must be at most 1e-5 of its magnitude."""
        scores, magnitudes = collection.scores(query, weights)
        order = sorted(range(len(ordinals)), key=lambda p: (-scores[ordinals[p]], p))[:top_k]
        self.assertEqual([d.position for d in ranking], order)
        self.assertEqual([d.id for d in ranking], [collection.ids[ordinals[p]] for p in order])
        for document in ranking:
            ordinal = ordinals[document.position]
            self.assertLessEqual(abs(document.score - scores[ordinal]), 1e-5 * magnitudes[ordinal])

    def secured_server(self, **flags):
        """Starts a server of the collection "text" that requires the token "secret" and may load collections from the
        tests' folder."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        (folder / "tokens").write_text("secret\n")
        wanted = {"auth.tokens_file": folder / "tokens", "store.allowed_roots": self.folder, **flags}
        server = Maxsimd(self.programs, folder / "server", {"text": self.collections["text"]}, **wanted)
        self.addCleanup(server.stop)
        return server


# All coroutines use one event loop, because gRPC's asyncio has problems with several loops in one process.
_loop = asyncio.new_event_loop()


def run_async(coroutine):
    """Runs a coroutine to its end in the program's event loop."""
    return _loop.run_until_complete(coroutine)


class Waiting:
    """An AsyncClient with blocking methods, which run its coroutines to their end."""

    def __init__(self, *arguments, **named):
        from maxsim import AsyncClient

        self._client = AsyncClient(*arguments, **named)

    def __getattr__(self, name):
        method = getattr(self._client, name)

        async def call(*arguments, **named):
            return await method(*arguments, **named)

        return lambda *arguments, **named: run_async(call(*arguments, **named))


class BothTest(unittest.TestCase):
    """Tests of both clients against a server in this process, which has an `address`."""

    def clients(self, server, **arguments):
        """Yields a blocking client, and an AsyncClient with blocking methods."""
        from maxsim import Client

        for kind in (Client, Waiting):
            client = kind(server.address, **arguments)
            try:
                yield client
            finally:
                client.close()

    def check_cause(self, error):
        """Checks that the cause of the package's error is gRPC's own error."""
        from maxsim import MaxsimError

        self.assertIsInstance(error, MaxsimError)
        self.assertIsInstance(error.__cause__, grpc.RpcError)
        self.assertNotIsInstance(error.__cause__, MaxsimError)


def serve(test, **methods):
    """Starts a server in this process and returns its port. `methods` maps names of methods of any service to
    functions. Each function gets a request (or an iterator of requests) and the call's context."""
    from maxsim.v1 import admin_pb2_grpc, documents_pb2_grpc, rerank_pb2_grpc

    server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
    for module, name in ((rerank_pb2_grpc, "Reranker"), (documents_pb2_grpc, "Documents"), (admin_pb2_grpc, "Admin")):
        servicer = getattr(module, f"{name}Servicer")()
        vars(servicer).update({method: methods.pop(method) for method in [*methods] if hasattr(servicer, method)})
        getattr(module, f"add_{name}Servicer_to_server")(servicer, server)
    assert not methods, methods
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    test.addCleanup(server.stop, None)
    return port


def main():
    """Runs the tests of the program: python NAME_test.py FOLDER_OF_THE_PROGRAMS."""
    RealServerTest.programs = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
