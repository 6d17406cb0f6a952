"""Tests that CollectionWriter.add_packed has the same effect as `add` for each document.

python packed_test.py
"""

import numpy as np

from collection_fixture import CollectionWriter, TemporaryFolderTest, documents, main
from maxsim.collection import CollectionError

DIM = 32


class PackedTest(TemporaryFolderTest):
    def write_packed(self, made, target, parts, **options):
        """Adds the documents in `parts` calls of add_packed, but the last documents by add."""
        with CollectionWriter(target, dim=DIM, name="x", **options) as writer:
            step = -(-len(made) // parts)
            for first in range(0, len(made) - 1, step):
                part = made[first : min(first + step, len(made) - 1)]
                vectors = np.concatenate([vectors for _, vectors, _ in part])
                payloads = [payload for _, _, payload in part]
                lengths = [len(vectors) for _, vectors, _ in part]
                writer.add_packed([id for id, _, _ in part], vectors, lengths, payloads)
            writer.add(*made[-1])
        return writer.summary

    def test_the_files_are_those_of_add(self):
        for number, (storage, id_type, payloads, dtype) in enumerate(
            (storage, id_type, payloads, dtype)
            for storage in ("f32", "f16", "bf16", "i8")
            for id_type, payloads in (("string", "some"), ("int64", "none"), ("string", "last"))
            for dtype in (np.float16, np.float32)
        ):
            with self.subTest(storage=storage, id_type=id_type, payloads=payloads, dtype=dtype):
                made = documents(number, 200, DIM, dtype=dtype, id_type=id_type, payloads=payloads)
                one, many = self.folder / f"one-{number}", self.folder / f"many-{number}"
                with CollectionWriter(one, dim=DIM, name="x", storage=storage, max_shard_bytes=100_000) as writer:
                    writer.add_many(made)
                self.write_packed(made, many, 3, storage=storage, max_shard_bytes=100_000)
                self.assert_same_files(one, many)

    def test_documents_of_more_than_one_batch(self):
        made = documents(1, 9000, DIM, longest=20, id_type="int64")
        one, many = self.folder / "one", self.folder / "many"
        with CollectionWriter(one, dim=DIM, name="x") as writer:
            writer.add_many(made)
        self.write_packed(made, many, 1)
        self.assert_same_files(one, many)

    def test_what_does_not_fit_is_refused_and_nothing_of_it_is_added(self):
        vectors = np.ones((5, DIM), np.float32)
        with CollectionWriter(self.folder / "c", dim=DIM, name="x") as writer:
            writer.add_packed(["a", "b"], vectors, [2, 3])
            for arguments, message in (
                (
                    (["c"], vectors.astype(np.float64), [5]),
                    r"vectors: float64 \[5, 32\]; must be float16 or float32 \[tokens, 32\]",
                ),
                ((["c"], vectors[:, 1:], [5]), r"vectors: float32 \[5, 31\]"),
                ((["c"], vectors, [2, 3]), "lengths, payloads: must be one for each of the 1 ids"),
                ((["c"], vectors, [5], []), "lengths, payloads: must be one for each of the 1 ids"),
                (
                    (["c", "d"], vectors, [5, 0]),
                    r"lengths: 0 \.\. 5, 5 in all; must be 1 \.\. 65536, and 5 in all",
                ),
                ((["c", "d"], vectors, [5, 1]), r"lengths: 1 \.\. 5, 6 in all"),
                ((["c", ""], vectors, [2, 3]), '^document 3: id "": empty'),
                ((["c", 4], vectors, [2, 3]), "document 3, id 4: it is a string, but others are integers"),
                (([3, 4], vectors, [2, 3]), "the id is an integer, unlike those before it"),
                ((["c", "d"], vectors, [2, 3], [None, {"x": float("nan")}]), 'document 3, id "d": payload'),
            ):
                with self.subTest(message), self.assertRaisesRegex(CollectionError, message):
                    writer.add_packed(*arguments)
            writer.add_packed([], vectors[:0], [])
        self.assertEqual((writer.summary.num_documents, writer.summary.num_tokens), (2, 5))

    def test_a_value_that_cannot_be_stored_and_an_id_that_repeats_are_named(self):
        bad = np.ones((5, DIM), np.float32)
        bad[3, 7] = np.inf
        for ids, vectors, message in (
            (["a", "b"], bad, 'document 1, id "b"'),
            (["a", "a"], np.ones((5, DIM), np.float32), 'document 1: id "a" is already the id of document 0'),
        ):
            target = self.folder / "bad"
            with self.assertRaisesRegex(CollectionError, message):
                with CollectionWriter(target, dim=DIM, name="x") as writer:
                    writer.add_packed(ids, vectors, [2, 3])
            self.assertFalse(target.exists())


if __name__ == "__main__":
    main()
