"""Runs examples/ray on the demo collection, with a Ray cluster of two CPUs. Compares its output with NumPy, and with
the answers of a maxsimd that the test calls directly.

python ray_test.py FOLDER_OF_THE_PROGRAMS
"""

import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from programs import ROOT, Maxsimd

PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
EXAMPLE = ROOT / "examples" / "ray"
sys.path[:0] = [str(EXAMPLE), str(ROOT / "tests" / "support")]

from python_package import PYTHON_CLIENT, use_package  # noqa: E402

use_package()
# With this path, Ray's workers find the package and the example.
os.environ["PYTHONPATH"] = os.pathsep.join([str(PYTHON_CLIENT), str(EXAMPLE)])
HOME = tempfile.TemporaryDirectory(prefix="maxsim-ray-home-")
os.environ["HOME"] = HOME.name  # Ray keeps a token there.

import demo  # noqa: E402
import engines  # noqa: E402
import manifests  # noqa: E402
import run  # noqa: E402
import tables  # noqa: E402
from maxsim import Client  # noqa: E402

OBJECT_STORE_BYTES = 100 << 20
WORKERS = ["--actors", "2", "--num-cpus", "0.5", "--server-flag", "backend.kind=cpu"]
SEED = 20261126


def bits(scores):
    return np.array(scores, np.float32).view(np.uint32).tolist()


class Scratch(unittest.TestCase):
    """Gives each test a folder. run_example() calls run.py in this process."""

    collection = None

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="maxsim-ray-test-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def run_example(self, mode, table, *arguments, collections=None):
        """Runs the example. Returns its exit status, its text on standard error, and its output folder."""
        queries, output = self.folder / "queries.parquet", self.folder / "output"
        pq.write_table(table, queries)
        command = [mode, "--queries", str(queries), "--output", str(output), "--maxsimd", str(PROGRAMS / "maxsimd")]
        for folder in collections or [self.collection]:
            command += ["--collection", str(folder)]
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors):
            status = run.main([*command, *arguments])
        return status, errors.getvalue(), output

    def check_refused(self, text, mode, table, *arguments, **options):
        status, errors, output = self.run_example(mode, table, *arguments, **options)
        self.assertEqual(status, 1)
        self.assertIn(text, errors.splitlines()[-1])
        self.assertTrue(errors.splitlines()[-1].startswith("run.py: "), errors)
        self.assertFalse(output.exists(), "a run that failed has left its output")


def start_ray(ray):
    """Starts Ray. Retries if Ray's servers exceed Ray's own time limit, which can happen on a busy machine."""
    import psutil  # Ray brings it.

    before = set(psutil.Process().children(recursive=True))
    for attempts_left in reversed(range(5)):
        try:
            ray.init(
                "local",
                num_cpus=2,
                object_store_memory=OBJECT_STORE_BYTES,
                include_dashboard=False,
                log_to_driver=False,
            )
            return
        except Exception as error:  # Ray raises Exception and RuntimeError for it.
            if not attempts_left or "imed out" not in str(error):
                raise
            print(f"Ray did not start in its time, once more: {error}", file=sys.stderr)
            ray.shutdown()
            # Kills the servers of the failed attempt. Otherwise they would run until this process ends, and disturb the
            # next one.
            for server in set(psutil.Process().children(recursive=True)) - before:
                with contextlib.suppress(psutil.NoSuchProcess):
                    server.kill()


class RayTest(Scratch):
    @classmethod
    def check_no_server_is_left(cls):
        limit = time.monotonic() + 30
        while leftover_servers() and time.monotonic() < limit:
            time.sleep(0.2)
        if left := leftover_servers():
            raise AssertionError(f"servers of actors go on after the end of Ray: {left}")

    @classmethod
    def setUpClass(cls):
        import ray

        cls.addClassCleanup(cls.check_no_server_is_left)  # This is done last.
        cls.server = Maxsimd(PROGRAMS)
        cls.addClassCleanup(cls.server.stop)
        cls.collection = cls.server.folder.parent / "demo"
        cls.queries = demo.demo_queries()
        cls.tokens = tables.read_queries(cls.queries, manifests.read_collection(cls.collection))
        cls.client = Client(cls.server.address)
        cls.addClassCleanup(cls.client.close)
        cls.addClassCleanup(ray.shutdown)
        start_ray(ray)

    def rankings(self, output):
        """Returns the ids and scores of each query in the order of ranks. Checks that ranks count from 1."""
        rows = pq.read_table(output).sort_by([("query_id", "ascending"), ("rank", "ascending")])
        self.assertEqual(rows.schema.field("score").type, pa.float32())
        found = {}
        for row in rows.to_pylist():
            ids, scores = found.setdefault(row["query_id"], ([], []))
            ids.append(row["document_id"])
            scores.append(row["score"])
            self.assertEqual(row["rank"], len(ids))
        return found

    def check_as_the_server_says(self, output, top_k=None):
        found = self.rankings(output)
        self.assertEqual(set(found), set(self.queries["query_id"].to_pylist()))
        listed = self.queries["candidates"].to_pylist()
        for name, tokens, ids in zip(self.queries["query_id"].to_pylist(), self.tokens, listed):
            wanted = self.client.rerank("demo", tokens, None if top_k else ids, top_k=top_k or len(ids))
            self.assertEqual(found[name][0], wanted.ids, name)
            self.assertEqual(bits(found[name][1]), bits(wanted.scores), name)
        return found

    def test_every_listed_pair_has_the_bits_of_a_direct_call(self):
        status, errors, output = self.run_example("score", self.queries, *WORKERS, "--batch-queries", "4")
        self.assertEqual(status, 0, errors)
        found = self.check_as_the_server_says(output)
        self.assertEqual(sum(len(ids) for ids, _ in found.values()), 15 * 50)

    def partitions(self):
        """Returns the arguments for two partitions, and their folders. If maxsim-shard cannot make partitions, returns
        those of the whole collection."""
        shard, folder = PROGRAMS / "maxsim-shard", self.folder / "partitions"
        if "--partitions" not in subprocess.run([shard, "build", "--help"], capture_output=True, text=True).stdout:
            print("this maxsim-shard cuts no partitions: the whole collection stands in for them")
            return WORKERS, [self.collection]
        command = [shard, "build", "--quiet", "--name", "demo", "--input", self.collection, "--output", folder]
        subprocess.run([*command, "--partitions", "2"], check=True)
        folders = [path.parent for path in folder.rglob("collection.json")]
        self.assertEqual(len(folders), 2)
        return ["--actors", "1", *WORKERS[2:]], folders

    def test_top_k_over_partitions_is_that_of_the_whole_in_numpy(self):
        arguments, folders = self.partitions()
        status, errors, output = self.run_example("top-k", self.queries, *arguments, "--k", "20", collections=folders)
        self.assertEqual(status, 0, errors)
        found = self.check_as_the_server_says(output, top_k=20)
        documents = np.split(np.load(demo.DEMO / "tokens.npy"), np.cumsum(np.load(demo.DEMO / "lengths.npy"))[:-1])
        names = [json.loads(line)["id"] for line in (demo.DEMO / "passages.jsonl").read_text().splitlines()]
        for name, query in zip(self.queries["query_id"].to_pylist(), self.tokens):
            exact = np.array([(query.astype(float) @ one.T.astype(float)).max(axis=1).sum() for one in documents])
            order = np.argsort(-exact, kind="stable")[:20]
            self.assertEqual(found[name][0], [names[i] for i in order])
            np.testing.assert_allclose(found[name][1], exact[order], rtol=1e-5)

    def test_an_unknown_id_is_named(self):
        listed = self.queries["candidates"].to_pylist()
        listed[7][3] = "nowhere-1"
        table = self.queries.set_column(2, "candidates", pa.array(listed))
        self.check_refused('the first is "nowhere-1"', "score", table, *WORKERS, "--actors", "1")

    def test_actors_that_would_wait_for_ever_are_refused(self):
        self.check_refused("do not fit into the 2 that Ray has", "score", self.queries, "--actors", "2")
        self.check_refused("GPUs do not fit into the 0", "score", self.queries, "--num-cpus", "0.5", "--num-gpus", "1")


def leftover_servers():
    """Returns the command lines of maxsimd processes that Ray's actors started and that are still running. They are
    recognised by the path of the program and the name of the socket."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            command = path.read_bytes().decode(errors="replace").split("\0")
            is_of_an_actor = any("maxsim-ray-" in part and part.endswith("/grpc.sock") for part in command)
            if command[0] == str(PROGRAMS / "maxsimd") and is_of_an_actor:
                found.append(command)
    return found


class InputTest(Scratch):
    """Requests that are refused before Ray is started."""

    def setUp(self):
        super().setUp()
        self.collection = self.folder / "collection"
        write_manifest(self.collection)
        self.queries = demo.demo_queries()

    def test_wrong_queries_are_refused_by_name(self):
        names = self.queries["query_id"].to_pylist()
        numbers = pa.array([[1, 2]] * len(names))
        wide = pa.array([[[1.0] * 96]] * len(names), pa.list_(pa.list_(pa.float32(), 96)))
        cases = {
            "there is no query in it": self.queries.slice(0, 0),
            "a token vector has 96 columns, those of demo 128": self.queries.set_column(1, "tokens", wide),
            "there is no column 'tokens'": self.queries.drop_columns(["tokens"]),
            "there is no column 'candidates'": self.queries.drop_columns(["candidates"]),
            "candidates is list<element: int64>; collection demo has ids of string": self.queries.set_column(
                2, "candidates", numbers
            ),
            "tokens is list<element: int64>": self.queries.set_column(1, "tokens", numbers),
            "query q01 is there 2 times": self.queries.set_column(0, "query_id", pa.array(["q01", *names[:-1]])),
            "1 of 15 ids of queries are null": self.queries.set_column(0, "query_id", pa.array([None, *names[1:]])),
        }
        for text, table in cases.items():
            with self.subTest(text):
                self.check_refused(text, "score", table)

    def test_wrong_rows_are_refused_by_the_name_of_their_query(self):
        collection = manifests.read_collection(self.collection)

        def read(rows):
            kind = pa.list_(pa.list_(pa.float32()))
            return tables.read_queries(pa.table({"query_id": ["a", "b"], "tokens": pa.array(rows, kind)}), collection)

        row = [0.5] * 128
        self.assertEqual([query.shape for query in read([[row], [row, row]])], [(1, 128), (2, 128)])
        for text, rows in {
            "query b: a token vector has 96 columns, those of demo 128": [[row], [row, row[:96]]],
            "query b: has 0 tokens": [[row], []],
            "query a: has 0 tokens": [None, [row]],
            "query b: has 4097 tokens; must have 1 to 4096": [[row], [row] * 4097],
            "query b: a value is not finite": [[row], [row, [float("inf")] * 128]],
            "query a: a value is not finite": [[[None] * 128], [row]],
        }.items():
            with self.subTest(text), self.assertRaises(manifests.InputError) as caught:
                read(rows)
            self.assertIn(text, str(caught.exception))

    def test_a_query_file_output_or_program_that_will_not_do_is_refused(self):
        self.check_refused("is no program on the PATH", "score", self.queries, "--maxsimd", "maxsimd-of-nowhere")
        self.check_refused("nowhere.parquet", "score", self.queries, "--queries", str(self.folder / "nowhere.parquet"))
        taken = self.folder / "taken"
        taken.mkdir()
        (taken / "file").write_text("")
        self.check_refused("is there already", "score", self.queries, "--output", str(taken))
        self.check_refused("cannot read collection.json", "score", self.queries, collections=[self.folder])

    def test_partitions_that_are_not_one_collection_are_refused(self):
        parts = [self.folder / name for name in ("a", "b", "c")]
        write_manifest(parts[0], partition={"first_slot": 0, "end_slot": 1365})
        write_manifest(parts[1], partition={"first_slot": 1365, "end_slot": 2730})
        write_manifest(parts[2], partition={"first_slot": 2730, "end_slot": 4096})
        found = manifests.read_partitions([parts[2], parts[0], parts[1]])
        self.assertEqual([one.first_slot for one in found], [0, 1365, 2730])
        for wrong in (parts[:2], parts[1:], [parts[0], parts[2]], [*parts, parts[1]], [self.collection] * 2):
            with self.subTest(wrong), self.assertRaisesRegex(manifests.InputError, "each of the 4096 slots once"):
                manifests.read_partitions(wrong)
        write_manifest(parts[1], partition={"first_slot": 1365, "end_slot": 2730}, dim=96)
        with self.assertRaisesRegex(manifests.InputError, "b: dim is 96, and that of .*a 128"):
            manifests.read_partitions(parts)


def write_manifest(folder, **values):
    """Writes the manifest of a collection "demo" without shards."""
    folder.mkdir(exist_ok=True)
    manifest = {"name": "demo", "dim": 128, "storage": "f16", "id_type": "string", "num_documents": 0, "shards": []}
    (folder / "collection.json").write_text(json.dumps({**manifest, **values}))


class ExactEngine:
    """Replaces ServerEngine. Computes scores with NumPy from small integers, so that they are exact and many are
    equal."""

    def __init__(self, collection, *_):
        self._held = [number for number in range(NUM_DOCUMENTS) if collection.holds(number)]

    def score(self, queries, ids):
        answers = []
        for query, listed in zip(queries, ids):
            assert set(listed) <= set(self._held) and len(set(listed)) == len(listed) > 0, listed
            scores = exact_scores(query)[np.array(listed)]
            answers.append(engines.best_first(list(listed), scores, np.arange(len(listed))))
        return answers

    def top_k(self, queries, k):
        held = np.array(self._held)
        return [engines.best_first(self._held, exact_scores(query)[held], held, k) for query in queries]


NUM_DOCUMENTS = 200
DOCUMENTS = np.random.default_rng(SEED).integers(-1, 2, (NUM_DOCUMENTS, 3, 8)).astype(np.float32)


def exact_scores(query):
    return np.einsum("qd,ntd->nqt", query, DOCUMENTS).max(axis=2).sum(axis=1).astype(np.float32)


class JoinTest(unittest.TestCase):
    """Tests, without Ray, that a batch of queries can pass through the scorers of several partitions one after
    another."""

    def setUp(self):
        print(f"seed {SEED}")
        random = np.random.default_rng(SEED + 1)
        self.queries = random.integers(-1, 2, (5, 2, 8)).astype(np.float32)
        # Some ids are repeated. Each id counts once, at its first position. The third query has no candidates.
        self.lists = [random.integers(0, NUM_DOCUMENTS, size).tolist() for size in (150, 7, 0, 1, 300)]

    def rows(self, mode, num_partitions, k=None):
        """Returns (query, document, score, rank) of all rows."""
        kind = pa.list_(pa.list_(pa.float32()))
        table = pa.table({"query_id": list("abcde"), "tokens": pa.array(self.queries.tolist(), kind)})
        table = table.append_column("candidates", pa.array(self.lists, pa.list_(pa.int64())))
        cuts = [manifests.NUM_SLOTS * i // num_partitions for i in range(num_partitions + 1)]
        options = ["--collection", "-", "--queries", "-", "--output", "-", *(["--k", str(k)] if k else [])]
        for first, end in zip(cuts, cuts[1:]):
            part = manifests.Collection(pathlib.Path(), "ints", 8, "f32", "int64", 0, 0, (), first, end)
            with mock.patch.object(run, "ServerEngine", ExactEngine):
                scorer = run.Scorer(part, end == manifests.NUM_SLOTS, run.parse_arguments([mode, *options]))
            table = scorer(table)
        return [tuple(row.values()) for row in table.to_pylist()]

    def test_three_partitions_give_the_scores_of_one(self):
        whole = self.rows("score", 1)
        wanted = []
        for name, query, listed in zip("abcde", self.queries, self.lists):
            listed = list(dict.fromkeys(listed))
            scores = exact_scores(query)[np.array(listed, int)]
            order = np.lexsort((np.arange(len(listed)), -scores))
            wanted += [(name, listed[i], float(scores[i]), rank) for rank, i in enumerate(order, 1)]
        self.assertEqual(whole, wanted)
        self.assertEqual(self.rows("score", 3), whole)

    def test_three_partitions_give_the_top_k_of_one(self):
        for k in (1, 30, NUM_DOCUMENTS, NUM_DOCUMENTS + 1):
            whole = self.rows("top-k", 1, k)
            self.assertEqual(len(whole), 5 * min(k, NUM_DOCUMENTS))
            scores = {score for _, _, score, _ in whole}
            self.assertLess(len(scores), max(len(whole), 2), "no scores tie")
            self.assertEqual(self.rows("top-k", 3, k), whole)

    def test_slots_are_those_of_the_server(self):
        slots = {"a": 3615, "doc-17": 1331, "Zürich": 1870, "17": 731, 17: 3931, -1: 1043, 2**63 - 1: 3910}
        self.assertEqual({id: manifests.slot_of(id) for id in slots}, slots)


if __name__ == "__main__":
    unittest.main(verbosity=2)
