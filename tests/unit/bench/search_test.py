"""Tests bench/search: how it enlarges a collection, finds the exact answers, counts recall and wrong proofs of answers,
and what its report and page contain.

python search_test.py
"""

import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock
import xml.etree.ElementTree

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench" / "search"))

import corpus  # noqa: E402
import exact  # noqa: E402
import measure  # noqa: E402
import page  # noqa: E402
import run  # noqa: E402
from documents import Documents, load_documents, load_questions, save_documents, save_questions  # noqa: E402
from report import Report  # noqa: E402
from scale import scale  # noqa: E402
from systems.system import Answer  # noqa: E402

SEED = int(os.environ.get("MAXSIM_TEST_SEED", "1"))
DIM = 16


def unit_rows(random, count):
    vectors = random.standard_normal((count, DIM))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)


def random_documents(count, seed=SEED):
    """Returns random documents. Token n, counted over all documents, has the word piece number n."""
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 12, count).astype(np.int64)
    tokens = int(lengths.sum())
    return Documents(unit_rows(random, tokens), lengths, np.arange(tokens, dtype=np.uint16))


def random_questions(count, seed=SEED):
    random = np.random.default_rng([seed, 1])
    return [unit_rows(random, int(random.integers(1, 6))) for _ in range(count)]


class WithFolder(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)


class ScaleTest(WithFolder):
    def test_a_smaller_collection_is_the_beginning_of_the_real_one(self):
        real = random_documents(30)
        for count in (1, 29, 30):
            made = scale(real, count, self.folder / str(count))
            np.testing.assert_array_equal(made.lengths, real.lengths[:count])
            np.testing.assert_array_equal(made.vectors, real.vectors[: made.lengths.sum()])
            np.testing.assert_array_equal(made.pieces, real.pieces[: made.lengths.sum()])

    def test_a_larger_collection_begins_with_the_real_one(self):
        real = random_documents(30)
        made = scale(real, 31, self.folder)
        self.assertEqual(len(made), 31)
        np.testing.assert_array_equal(made.vectors[: len(real.vectors)], real.vectors)
        self.assertIn(made.lengths[30], real.lengths)

    def test_the_number_of_threads_does_not_change_the_files(self):
        real = random_documents(30)
        with unittest.mock.patch("scale.BLOCK", 7):
            for threads in (1, 5):
                scale(real, 100, self.folder / str(threads), threads=threads)
            scale(real, 100, self.folder / "other", seed=6)
        for name in ("tokens.npy", "lengths.npy", "pieces.npy"):
            self.assertEqual((self.folder / "1" / name).read_bytes(), (self.folder / "5" / name).read_bytes())
        self.assertNotEqual(
            (self.folder / "1" / "tokens.npy").read_bytes(), (self.folder / "other" / "tokens.npy").read_bytes()
        )

    def test_made_documents_are_spans_of_real_tokens(self):
        real = random_documents(50)
        made = scale(real, 90, self.folder, noise=0, spans=3)
        np.testing.assert_allclose(made.vectors, real.vectors[made.pieces], atol=2e-3)
        for begin, end in zip(made.offsets[50:-1], made.offsets[51:]):
            steps = np.diff(made.pieces[begin:end].astype(int)) % len(real.vectors)
            self.assertLessEqual(np.count_nonzero(steps != 1), 2)

    def test_noise_moves_vectors_and_leaves_their_length(self):
        real = random_documents(50)
        made = scale(real, 500, self.folder, noise=0.05)
        rows = made.vectors[len(real.vectors) :].astype(np.float64)
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=2e-3)
        sources = real.vectors[made.pieces[len(real.vectors) :]].astype(np.float64)
        # The noise of DIM coordinates has a norm of about 0.05 * sqrt(DIM) = 0.2, and is nearly orthogonal to the
        # vector.
        self.assertAlmostEqual(float(np.mean((rows * sources).sum(1))), 1 / np.sqrt(1 + 0.2**2), delta=0.01)

    def test_refuses_a_collection_of_nothing(self):
        with self.assertRaisesRegex(ValueError, "--documents 0: must be at least 1"):
            scale(random_documents(3), 0, self.folder)


class DocumentsTest(WithFolder):
    def test_files_bring_back_what_was_saved(self):
        documents, questions = random_documents(7), random_questions(4)
        save_documents(self.folder, documents)
        save_questions(self.folder, questions)
        read = load_documents(self.folder)
        for one, other in zip(read.matrices(2, 5), documents.matrices()[2:5]):
            np.testing.assert_array_equal(one, other)
        self.assertEqual(len(read.matrices(2, 5)), 3)
        self.assertEqual([len(question) for question in load_questions(self.folder)], list(map(len, questions)))

    def test_refuses_lengths_that_do_not_fit(self):
        documents = random_documents(7)
        with self.assertRaisesRegex(ValueError, "tokens by lengths, but"):
            Documents(documents.vectors[1:], documents.lengths, documents.pieces)
        with self.assertRaisesRegex(ValueError, "at least 1 token"):
            Documents(documents.vectors, np.append(documents.lengths, 0), documents.pieces)


class ExactTest(unittest.TestCase):
    def plain(self, documents, question):
        return [
            sum(max(float(np.dot(q.astype(float), d.astype(float))) for d in document) for q in question)
            for document in documents.matrices()
        ]

    def test_scores_are_those_of_plain_loops(self):
        documents, questions = random_documents(40), random_questions(5)
        longest = int(documents.lengths.max())
        for chunk in (1, longest - 1, longest, longest + 1, len(documents.vectors)):
            truth = exact.best_documents(documents, questions, 40, chunk_tokens=chunk)
            for number, question in enumerate(questions):
                scores = np.array(self.plain(documents, question))
                order = np.lexsort((np.arange(40), -scores))
                np.testing.assert_array_equal(truth.ids[number], order)
                np.testing.assert_allclose(truth.scores[number], scores[order], rtol=1e-12)

    def test_the_best_of_all_chunks_are_kept(self):
        documents, questions = random_documents(200), random_questions(9)
        whole = exact.best_documents(documents, questions, 200)
        for depth in (1, 2, 31):
            truth = exact.best_documents(documents, questions, depth, chunk_tokens=50)
            np.testing.assert_array_equal(truth.ids, whole.ids[:, :depth])

    def test_equal_documents_come_in_their_order(self):
        one = random_documents(1)
        documents = Documents(np.tile(one.vectors, (9, 1)), np.tile(one.lengths, 9), np.tile(one.pieces, 9))
        truth = exact.best_documents(documents, random_questions(2), 9, chunk_tokens=int(2 * one.lengths[0]))
        np.testing.assert_array_equal(truth.ids, [range(9), range(9)])

    def test_documents_that_score_as_much_as_the_kth_are_acceptable(self):
        scores = np.array([[3.0, 2.0, 2.0 - 0.5 * exact.TIE, 2.0 - 2 * exact.TIE, 1.0]])
        truth = exact.Truth(np.array([[7, 5, 9, 2, 4]]), scores)
        self.assertEqual(truth.acceptable(0, 1), {7})
        self.assertEqual(truth.acceptable(0, 2), {7, 5, 9})
        self.assertEqual(truth.acceptable(0, 100), {7, 5, 9, 2, 4})


class FakeSystem:
    """A search system that answers at once, but advances its own clock by `seconds` for each question. The test also
    uses the object in place of the module `time`."""

    def __init__(self, truth, seconds):
        self.truth, self.seconds, self.now, self.asked = truth, seconds, 0.0, 0

    def perf_counter(self):
        return self.now

    def search(self, question, k, search):
        return self.search_many([question], k, search)[0]

    def search_many(self, questions, k, search):
        self.now += self.seconds * len(questions)
        self.asked += len(questions)
        return [Answer(list(self.truth.ids[int(question)][:k]), proven=True, refined=k) for question in questions]


class MeasureTest(unittest.TestCase):
    def truth(self, count, depth=200):
        return exact.Truth(np.tile(np.arange(depth), (count, 1)), np.tile(-np.arange(depth, dtype=float), (count, 1)))

    def measure(self, system, count, seconds, k=10):
        with unittest.mock.patch("measure.time", system):
            return measure.measure(system, list(range(count)), system.truth, k, {}, seconds)

    def test_recall_is_the_share_of_the_exact_top_k(self):
        truth = self.truth(2)
        right, half = Answer(list(range(9, -1, -1))), Answer([*range(5), *range(50, 55)])
        self.assertEqual(measure.recall([right, right], truth, 10), 1)
        self.assertEqual(measure.recall([right, half], truth, 10), 0.75)
        self.assertEqual(measure.recall([Answer([0] * 10)], truth, 10), 0.1)
        self.assertEqual(measure.recall([Answer([])], truth, 10), 0)
        self.assertEqual(measure.recall([Answer(list(range(90, -1, -1)))], truth, 10), 0)

    def test_a_proven_answer_that_is_not_the_exact_one_is_found(self):
        truth = self.truth(4)
        right, wrong = list(range(10)), [*range(9), 11]
        answers = [Answer(right, True), Answer(wrong, False), Answer(wrong, True), Answer(wrong)]
        self.assertEqual(measure.wrong_proofs(answers, truth, 10), [2])

    def test_the_known_item_counts_by_its_rank(self):
        self.assertEqual(measure.known_item_mrr([Answer([0, 5]), Answer([3, 1]), Answer([0, 1])]), 0.5)

    def test_a_fast_system_is_asked_all_questions_again_and_again(self):
        system = FakeSystem(self.truth(100), 1e-3)
        row = self.measure(system, 100, 1.0)
        self.assertEqual((row["questions"], row["recall"], row["proven"], row["wrong_proofs"]), (100, 1, 100, 0))
        self.assertAlmostEqual(row["batched_qps"], 1000)
        self.assertAlmostEqual(row["p50_ms"], 1)
        self.assertEqual(row["refined_p100"], 10)
        self.assertGreater(system.asked, 1000)

    def test_a_slow_system_is_asked_fewer_questions(self):
        system = FakeSystem(self.truth(1000), 1.0)
        row = self.measure(system, 1000, 10.0)
        self.assertEqual(row["questions"], 2 * measure.MIN_BATCH)
        self.assertEqual(row["recall"], 1)


class ReportTest(WithFolder):
    def test_a_row_takes_the_place_of_the_same_one(self):
        report = Report(self.folder / "report.json")
        key = {"collection": "c", "system": "s", "build": {"bits": 4}, "search": {"probes": 8}, "k": 10}
        report.add("rows", {**key, "recall": 0.5})
        report.add("rows", {**key, "k": 100, "recall": 0.6})
        report.add("rows", {**key, "recall": 0.7})
        self.assertEqual(sorted(row["recall"] for row in report.read()["rows"]), [0.6, 0.7])
        self.assertEqual([row["recall"] for row in report.find("rows", **key)], [0.7])
        self.assertEqual(report.find("rows", **{**key, "search": {"probes": 9}}), [])
        report.remove("rows", key)
        self.assertEqual([row["k"] for row in report.read()["rows"]], [100])

    def test_a_write_that_fails_leaves_the_report_as_it_was(self):
        report = Report(self.folder / "report.json")
        report.begin_run({"command": "one"})
        with self.assertRaises(TypeError):
            report.add("rows", {"collection": object()})
        self.assertEqual([run["command"] for run in report.read()["runs"]], ["one"])


class RunTest(WithFolder):
    def test_a_command_that_fails_is_named_with_its_last_words(self):
        self.assertEqual(run.run_in_group(["sh", "-c", "exit 0"], 60), "")
        self.assertEqual(run.run_in_group(["sh", "-c", "echo went wrong >&2; exit 3"], 60), "exit 3: went wrong")

    def test_a_command_that_hangs_is_ended_with_all_that_it_started(self):
        started = self.folder / "started"
        wait = subprocess.Popen.wait

        def hang(process, timeout=None):
            if timeout is None:
                return wait(process)
            while not started.exists():
                time.sleep(0.01)
            raise subprocess.TimeoutExpired("hangs", timeout)

        command = f"sleep 1000 & echo $! > {started}.tmp; mv {started}.tmp {started}; wait"
        with unittest.mock.patch.object(subprocess.Popen, "wait", hang):
            self.assertEqual(run.run_in_group(["sh", "-c", command], 60), "not done after 60 s")
        state = pathlib.Path("/proc") / started.read_text().strip() / "stat"
        deadline = time.monotonic() + 60
        while state.exists() and " Z " not in state.read_text():
            self.assertLess(time.monotonic(), deadline, "the command's child lives")
            time.sleep(0.01)


class PageTest(WithFolder):
    def setUp(self):
        super().setUp()
        self.report = {
            "runs": [{"date": "2026-01-01", "gpu": [["GPU", "580"]], "cpu_threads": 2, "command": "run.py"}],
            "collections": [{
                "collection": "minilm-10", "kind": "minilm", "documents": 10, "real_documents": 8, "vectors": 70,
                "dim": 16, "questions": 5, "mean_question_tokens": 3.0,
            }],
            "indexes": [self.index("maxsimd", 4000), self.index("fast-plaid", 1000)],
            "rows": [
                {**self.row("maxsimd", 1.0, 50), "proven": 4, "wrong_proofs": 0},
                self.row("fast-plaid", 0.9, 100),
            ],
            "failures": [{"collection": "minilm-10", "system": "tachiom", "error": "is not installed"}],
        }  # fmt: skip

    def index(self, system, size):
        return {"collection": "minilm-10", "system": system, "build": {"bits": 4}, "device": "cpu", "build_s": 1.0,
                "versions": {system: "1.2.3"}, "bytes": {"index": size}}  # fmt: skip

    def row(self, system, recall, qps):
        return {"collection": "minilm-10", "system": system, "build": {"bits": 4}, "search": {"n": None}, "k": 10,
                "questions": 5, "recall": recall, "batched_qps": qps, "single_qps": qps, "p50_ms": 1000 / qps,
                "p99_ms": 9.0}  # fmt: skip

    def test_proofs_about_int8_vectors_are_not_compared(self):
        def row(storage, questions, proven, wrong):
            build = {"storage": storage, "codes": 4}
            return {"collection": "c", "build": build, "questions": questions, "proven": proven, "wrong_proofs": wrong}

        report = {"rows": [row("f16", 4, 2, 0), row("i8", 5, 3, 1)]}
        self.assertIn("Of 4 answers from codes beside FP16", page.proofs(report, {"collection": "c"}))
        self.assertIn("2 are `PROVEN`. Of these, 0 differ", page.proofs(report, {"collection": "c"}))

    def test_losses_are_said_as_plainly_as_wins(self):
        text = page.page(self.report, self.folder / "search")
        [line] = [line for line in text.splitlines() if line.startswith("| fast-plaid: bits 4; n auto")]
        self.assertIn("| 0.9000 | bits 4; n auto | 1.0000 | **0.5 x** | **0.5 x** | **0.25 x** |", line)
        self.report["rows"][0].update(batched_qps=250.0, p50_ms=2.0)
        text = page.page(self.report, self.folder / "search")
        self.assertIn("| 2.5 x | 5 x | **0.25 x** |", text)

    def test_a_peer_that_finds_more_than_maxsimd_is_named(self):
        self.report["rows"][0]["recall"] = 0.8
        text = page.page(self.report, self.folder / "search")
        self.assertIn("| fast-plaid: bits 4; n auto | 10 | 0.9000 | **none finds as much** |", text)

    def test_what_was_not_measured_and_versions_are_named(self):
        text = page.page(self.report, self.folder / "search")
        self.assertIn("- tachiom default: `is not installed`", text)
        self.assertIn("fast-plaid 1.2.3", text)
        self.assertIn("The other 2 consist of spans of real ones", text)
        self.assertIn("4 are `PROVEN`. Of these, 0 differ", text)
        self.assertIn("GPU, driver 580, 2 threads; `run.py`", text)

    def test_each_plot_has_a_curve_for_each_index(self):
        text = page.page(self.report, self.folder / "search")
        for name in ("batched", "single"):
            self.assertIn(f"(search/minilm-10-{name}.svg)", text)
            drawing = xml.etree.ElementTree.parse(self.folder / "search" / f"minilm-10-{name}.svg")
            self.assertEqual(len(drawing.findall("{http://www.w3.org/2000/svg}polyline")), 2)


class CorpusTest(WithFolder):
    def test_entries_of_dictionaries_are_read_once_each(self):
        folder = self.folder / "usr" / "share" / "dictd"
        folder.mkdir(parents=True)
        first, second = "  alpha\n" + "a " * 40, "beta " + "b " * 40
        data = (first + second + "short").encode()
        digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

        def base64(value):
            return (base64(value // 64) if value >= 64 else "") + digits[value % 64]

        places = [("00database", 0, 5), ("alpha", 0, len(first)), ("alef", 0, len(first)),
                  ("beta", len(first), len(second)), ("short", len(first + second), 5)]  # fmt: skip
        lines = (f"{word}\t{base64(begin)}\t{base64(length)}\n" for word, begin, length in places)
        (folder / "words.index").write_text("".join(lines))
        (folder / "words.dict.dz").write_bytes(gzip.compress(data))
        self.assertEqual(list(corpus.entries(self.folder)), [" ".join(first.split()), " ".join(second.split())])

    def test_the_training_sees_no_question_of_its_evaluation(self):
        pairs = [(f"package{i}", f"synopsis {i}", f"A description, number {i}. " * 40) for i in range(10)]
        corpus.write_training(self.folder, pairs, 3)
        passages = [json.loads(line) for line in (self.folder / "passages.jsonl").read_text().splitlines()]
        questions = [json.loads(line) for line in (self.folder / "queries.jsonl").read_text().splitlines()]
        self.assertEqual([question["text"] for question in questions], ["synopsis 7", "synopsis 8", "synopsis 9"])
        self.assertEqual([passage["title"] for passage in passages[6:8]], ["synopsis 6", "package7"])
        self.assertTrue(all(len(passage["text"]) <= corpus.TRAINING_CHARACTERS for passage in passages))
        judged = [line.split() for line in (self.folder / "qrels.tsv").read_text().splitlines()]
        self.assertEqual(judged, [[f"q-package{i}", f"package{i}", "1"] for i in (7, 8, 9)])


if __name__ == "__main__":
    unittest.main(verbosity=2)
