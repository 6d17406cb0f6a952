"""Checks that both engines of examples/ray give the same answers: the library in this process, and a separate maxsimd.

python ray_library_test.py LIBMAXSIM.so FOLDER_OF_THE_PROGRAMS        with torch installed
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

os.environ["MAXSIM_LIBRARY"] = str(pathlib.Path(sys.argv.pop(1)).resolve())
PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()

import numpy as np  # noqa: E402

from programs import ROOT, run  # noqa: E402

sys.path[:0] = [str(ROOT / folder) for folder in ("examples/ray", "client/torch", "tests/support")]

from python_package import use_package  # noqa: E402

use_package()

import engines  # noqa: E402
import manifests  # noqa: E402

DEMO = ROOT / "demo"
SEED = 20261126


class EngineTest(unittest.TestCase):
    """Sets up a folder, the demo's questions, and the ids of its passages."""

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="maxsim-ray-library-")
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        cls.queries = np.split(np.load(DEMO / "query_tokens.npy"), np.cumsum(np.load(DEMO / "query_lengths.npy"))[:-1])
        cls.ids = [json.loads(line)["id"] for line in (DEMO / "passages.jsonl").read_text().splitlines()]

    def build(self, name, *options):
        """Builds a collection of several shards. It contains each document twice, so that scores tie."""
        tokens, lengths = np.load(DEMO / "tokens.npy"), np.load(DEMO / "lengths.npy")
        np.save(self.folder / "tokens.npy", np.concatenate([tokens, tokens]))
        np.save(self.folder / "lengths.npy", np.concatenate([lengths, lengths]))
        (self.folder / "ids.txt").write_text("\n".join([*self.ids, *(f"{id}-again" for id in self.ids)]))
        files = [part for name in ("tokens", "lengths") for part in (f"--{name}", self.folder / f"{name}.npy")]
        command = [PROGRAMS / "maxsim-shard", "build", "--quiet", "--name", name, "--output", self.folder / name]
        run(*command, *files, "--ids", self.folder / "ids.txt", "--max-shard-bytes", "1MiB", *options)
        collection = manifests.read_collection(self.folder / name)
        self.assertGreater(len(collection.shards), 2)
        return collection

    def check_same(self, mine, theirs):
        self.assertEqual(len(mine), len(theirs))
        for answer, wanted in zip(mine, theirs):
            self.assertEqual(answer.ids, wanted.ids)
            self.assertEqual(answer.positions.tolist(), wanted.positions.tolist())
            self.assertEqual(answer.scores.view(np.uint32).tolist(), wanted.scores.view(np.uint32).tolist())


class LibraryTest(EngineTest):
    def check(self, collection, queries):
        library = engines.LibraryEngine(collection, "cpu", 1)
        self.addCleanup(library.close)
        server = engines.ServerEngine(collection, str(PROGRAMS / "maxsimd"), 1, ["backend.kind=cpu"])
        self.addCleanup(server.close)
        random = np.random.default_rng(SEED)
        names = [*self.ids, *(f"{id}-again" for id in self.ids)]
        lists = [random.permutation(names)[: 1 + 20 * i].tolist() for i in range(len(queries))]
        self.check_same(library.score(queries, lists), server.score(queries, lists))
        for k in (1, 7, 300, 1000):
            self.check_same(library.top_k(queries, k), server.top_k(queries, k))
        for engine in (library, server):
            with self.assertRaisesRegex(engines.ScoringError, "nowhere"):
                engine.score(queries[:2], [names[:3], [*names[:3], "nowhere"]])

    def test_f16_has_the_bits_of_the_server(self):
        self.check(self.build("f16"), self.queries)

    def test_queries_are_rounded_to_the_collections_type(self):
        wide = [query.astype(np.float32) * np.float32(1.0001) for query in self.queries]
        self.check(self.build("bf16", "--storage", "bf16"), wide)

    def test_partitions_have_the_positions_of_the_whole(self):
        shard = PROGRAMS / "maxsim-shard"
        whole, folder = self.build("whole"), self.folder / "partitions"
        command = [shard, "build", "--quiet", "--name", "whole", "--input", whole.folder, "--output", folder]
        run(*command, "--partitions", "3", "--max-shard-bytes", "1MiB")
        partitions = manifests.read_partitions([path.parent for path in folder.rglob("collection.json")])
        self.assertEqual(len(partitions), 3)
        parts = []
        for partition in partitions:
            library = engines.LibraryEngine(partition, "cpu", 1)
            server = engines.ServerEngine(partition, str(PROGRAMS / "maxsimd"), 1, ["backend.kind=cpu"])
            parts.append(library.top_k(self.queries, 40))
            self.check_same(parts[-1], server.top_k(self.queries, 40))
            server.close()
        joined = [engines.join(answers, 40) for answers in zip(*parts)]
        self.check_same(joined, engines.LibraryEngine(whole, "cpu", 1).top_k(self.queries, 40))

    def test_i8_is_refused(self):
        with self.assertRaisesRegex(manifests.InputError, "storage is i8.*use --engine server"):
            engines.LibraryEngine(self.build("i8", "--storage", "i8"), "cpu", 1)


class ServerTest(EngineTest):
    def test_lists_above_the_limit_of_a_call_are_cut_and_joined(self):
        collection = self.build("cut")
        server = engines.ServerEngine(collection, str(PROGRAMS / "maxsimd"), 1, ["backend.kind=cpu"])
        self.addCleanup(server.close)
        lists = [self.ids, self.ids[:7], self.ids[:8]]
        whole = server.score(self.queries[:3], lists)
        limit, engines.MAX_TOP_K = engines.MAX_TOP_K, 7
        try:
            self.check_same(server.score(self.queries[:3], lists), whole)
        finally:
            engines.MAX_TOP_K = limit

    def test_neither_a_server_nor_its_folder_outlives_an_actor_that_is_killed(self):
        collection = self.build("killed")
        program = f"""
import pathlib, sys, time
sys.path[:0] = {sys.path!r}
import engines, manifests
engine = engines.ServerEngine(
    manifests.read_collection(pathlib.Path({str(collection.folder)!r})), {str(PROGRAMS / "maxsimd")!r}, 1, []
)
print(engine._folder, flush=True)
time.sleep(600)
"""
        actor = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        self.addCleanup(actor.stdout.close)
        folder = pathlib.Path(actor.stdout.readline().strip())
        server = json.loads((folder / "ports.json").read_text())["pid"]
        self.assertTrue(pathlib.Path(f"/proc/{server}").exists())
        actor.kill()
        actor.wait()
        limit = time.monotonic() + 60
        while (folder.exists() or pathlib.Path(f"/proc/{server}").exists()) and time.monotonic() < limit:
            time.sleep(0.05)
        self.assertFalse(folder.exists())
        self.assertFalse(pathlib.Path(f"/proc/{server}").exists())

    def test_a_server_that_does_not_start_says_why(self):
        collection = self.build("wrong")
        with self.assertRaisesRegex(engines.ScoringError, "does not serve .*wrong: .*tpu"):
            engines.ServerEngine(collection, str(PROGRAMS / "maxsimd"), 1, ["backend.kind=tpu"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
