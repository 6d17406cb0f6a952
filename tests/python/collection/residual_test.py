"""Tests collections of residual codes that CollectionWriter writes and maxsim-shard reads.

python residual_test.py MAXSIM_SHARD"""

import json

import numpy as np

from collection_fixture import CollectionWriter, TemporaryFolderTest, main, run_shard
from maxsim.collection import Codebook, CollectionError

DIM = 16


def make_codebook(nbits, num_centroids=5, dim=DIM):
    rng = np.random.default_rng(nbits)
    weights = (rng.standard_normal(2**nbits) / 10).astype(np.float32)
    return Codebook(rng.standard_normal((num_centroids, dim)).astype(np.float16), weights)


def make_documents(codebook, count, id_type, payloads):
    rng = np.random.default_rng(count)
    made = []
    for number in range(count):
        size = int(rng.integers(1, 9))
        residuals = rng.integers(0, 256, (size, codebook.dim * codebook.nbits // 8), dtype=np.uint8)
        rows = codebook.rows(rng.integers(0, len(codebook.centroids), size), residuals)
        made.append((f"d{number}" if id_type == "string" else number, rows, {"n": number} if payloads(number) else None))
    return made


class ResidualTest(TemporaryFolderTest):
    def write_coded(self, made, target, codebook, **options):
        with CollectionWriter(target, dim=DIM, codebook=codebook, **options) as writer:
            writer.add_many(made)
        return writer.summary

    def test_what_is_written_is_read(self):
        for nbits in (1, 2, 4, 8):
            for id_type, payloads in (("string", lambda n: n > 150), ("int64", lambda n: False)):
                with self.subTest(nbits=nbits, id_type=id_type):
                    codebook = make_codebook(nbits)
                    made = make_documents(codebook, 200, id_type, payloads)
                    target = self.folder / f"{nbits}-{id_type}"
                    # When the first payload comes, the writer must write the earlier shards again.
                    summary = self.write_coded(made, target, codebook, max_shard_bytes=16_384)
                    self.assertEqual(summary.storage, f"residual{nbits}")
                    manifest = json.loads((target / "collection.json").read_text())
                    self.assertEqual(manifest["num_centroids"], 5)
                    self.assertEqual(manifest["num_tokens"], sum(len(rows) for _, rows, _ in made))
                    self.assert_whole(target)
                    outcome = run_shard("inspect", target)
                    self.assertIn(f"residual{nbits}", outcome.stdout, outcome.stderr)

    def test_packed_documents_give_the_same_files(self):
        codebook = make_codebook(4)
        made = make_documents(codebook, 300, "string", lambda n: n % 3 == 0)
        one, many = self.folder / "one", self.folder / "many"
        self.write_coded(made, one, codebook, name="x")
        with CollectionWriter(many, dim=DIM, codebook=codebook, name="x") as writer:
            ids, rows, payloads = zip(*made)
            writer.add_packed(ids, np.concatenate(rows), [len(one) for one in rows], payloads)
        self.assert_same_files(one, many)

    def test_values_come_out_as_an_ordinary_collection(self):
        codebook = make_codebook(2)
        made = make_documents(codebook, 20, "int64", lambda n: False)
        self.write_coded(made, self.folder / "coded", codebook)
        outcome = run_shard(
            "build", "--input", self.folder / "coded", "--storage", "f32", "--quiet", "--output", self.folder / "plain"
        )
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        self.assert_whole(self.folder / "plain")

    def test_commands_that_do_not_take_it_say_so(self):
        codebook = make_codebook(8)
        coded = self.folder / "coded"
        self.write_coded(make_documents(codebook, 20, "int64", lambda n: False), coded, codebook)
        for command in (
            ("encode", coded, "--codes", "1"),
            ("split", coded, "--into", "2", "--output", self.folder / "parts"),
        ):
            outcome = run_shard(*command)
            self.assertNotEqual(outcome.returncode, 0)
            self.assertIn("residual8", outcome.stderr)

    def test_what_does_not_fit_is_refused(self):
        codebook = make_codebook(4)
        rows = codebook.rows(np.array([0, 4]), np.zeros((2, 8), np.uint8))
        with CollectionWriter(self.folder / "c", dim=DIM, codebook=codebook) as writer:
            writer.add("a", rows)
            for wrong, message in (
                (rows[:, 1:], r"uint8 \[2, 11\]; must be uint8 \[tokens, 12\]"),
                (np.zeros((2, DIM), np.float32), r"float32 \[2, 16\]; must be uint8 \[tokens, 12\]"),
                (codebook.rows(np.array([0, 5]), np.zeros((2, 8), np.uint8)), "token 1 has centroid 5 of 5"),
            ):
                with self.assertRaisesRegex(CollectionError, message):
                    writer.add("b", wrong)
                with self.assertRaisesRegex(CollectionError, message):
                    writer.add_packed(["b"], wrong, [2])
        for arguments, message in (
            ({"dim": 32}, "codebook: has 16 columns, but dim is 32"),
            ({"dim": DIM, "storage": "f16"}, "storage: f16, but the codebook's is residual4"),
            ({"dim": DIM, "codes": 1}, "residual codes have no other codes beside them"),
        ):
            with self.assertRaisesRegex(CollectionError, message):
                CollectionWriter(self.folder / "d", codebook=codebook, **arguments)
        centroids, weights = np.zeros((2, 16), np.float16), np.zeros(4, np.float32)
        for wrong in (
            (centroids.astype(np.float32), weights),
            (centroids[:, :7], weights),
            (centroids, weights[:3]),
            (centroids + np.float16("inf"), weights),
            (centroids, weights + np.float32(30_001)),
            (np.zeros((2, 1032), np.float16), weights),
        ):
            with self.assertRaises(CollectionError):
                Codebook(*wrong)


if __name__ == "__main__":
    main()
