"""Tests imports of indexes that the installed version of fast-plaid makes: python plaid_test.py PROGRAMS"""

import contextlib
import io
import os
import shutil
from importlib import metadata

from index_fixture import CODES_TOLERANCE, IndexTest, main, random_vectors, read_collection  # isort: skip
import numpy as np
import torch
from fast_plaid import search

from maxsim.importers import import_collection

VERSION = tuple(map(int, metadata.version("fast-plaid").split(".")[:2]))


class FastPlaidTest(IndexTest):
    def make(self, nbits, num_documents=60, dim=64, payloads=None, **arguments):
        self.path = self.folder / "index"
        self.index = search.FastPlaid(index=str(self.path), device="cpu")
        documents = [torch.from_numpy(document) for document in random_vectors(num_documents, dim, seed=nbits)]
        with contextlib.redirect_stdout(io.StringIO()):
            self.index.create(documents, nbits=nbits, kmeans_niters=2, batch_size=25, metadata=payloads, **arguments)

    def update(self, count, seed, **arguments):
        documents = [torch.from_numpy(document) for document in random_vectors(count, self.dim(), seed)]
        with contextlib.redirect_stdout(io.StringIO()):
            self.index.update(documents, **arguments)

    def dim(self):
        return np.load(self.path / "centroids.npy").shape[1]

    def reconstruction(self, count):
        return [document.numpy() for document in self.index.get_embeddings(list(range(count)))]

    def assert_reconstruction(self, count, **options):
        return self.assert_index("plaid", self.path, range(count), self.reconstruction(count), **options)

    def test_vectors_are_the_librarys_own_at_every_number_of_bits(self):
        for nbits in (1, 2, 4, 8):
            with self.subTest(nbits=nbits):
                self.make(nbits, start_from_scratch=10)
                source = self.assert_reconstruction(60)
                self.assertIn(f"{nbits} bits", source.notes[0])
                shutil.rmtree(self.path)

    def test_updates_and_deletions_are_followed(self):
        self.make(4, start_from_scratch=10)
        self.update(7, seed=100)
        self.assert_reconstruction(67)
        with contextlib.redirect_stdout(io.StringIO()):
            self.index.delete([0, 3, 33, 66])
        self.assert_reconstruction(63)
        self.update(120, seed=101)  # more than the index buffers, so that it makes new centroids
        self.assert_reconstruction(183)
        with contextlib.redirect_stdout(io.StringIO()):
            self.index.delete(list(range(20, 60)))
        self.assert_reconstruction(143)

    def test_an_update_of_a_small_index_makes_it_anew(self):
        self.make(2, num_documents=20)
        self.assertTrue((self.path / "embeddings.npy").exists())
        self.update(5, seed=7)
        self.assert_reconstruction(25)

    def test_the_vectors_before_coding_are_imported_where_they_are_asked_for(self):
        self.make(2, num_documents=20)
        before = [np.float16(document) for document in random_vectors(20, 64, seed=2)]
        source = self.assert_index("plaid", self.path, range(20), before, tolerance=1e-3, vectors_column="embeddings")
        self.assertTrue(all("--vectors-column" not in note for note in source.notes))
        exact = np.load(self.path / "embeddings.npy", allow_pickle=True)
        self.assert_index("plaid", self.path, range(20), list(exact), tolerance=0, vectors_column="embeddings")
        self.assertIn("--vectors-column embeddings", " ".join(self.assert_reconstruction(20).notes))
        self.assert_refused("plaid", self.path, "must be embeddings", vectors_column="centroids")

    def test_payloads_follow_their_documents_and_may_hold_the_ids(self):
        payloads = [{"name": f"n{i}", "value": i * 1.5, "rank": i} for i in range(60)]
        self.make(4, payloads=payloads, start_from_scratch=10)
        self.assert_reconstruction(60, payloads=payloads)
        with contextlib.redirect_stdout(io.StringIO()):
            self.index.delete([1, 2])
            self.index.update(
                [torch.from_numpy(document) for document in random_vectors(2, 64, seed=9)],
                metadata=[{"name": "new", "colour": "red"}, {"name": "newer"}],
            )
        kept = [payloads[0], *payloads[3:], {"name": "new", "colour": "red"}, {"name": "newer"}]
        self.assert_reconstruction(60, payloads=kept)
        ids = [payload["name"] for payload in kept]
        fields = [{"rank": payload["rank"]} if "rank" in payload else None for payload in kept]
        wanted = self.reconstruction(60)
        self.assert_index("plaid", self.path, ids, wanted, payloads=fields, id_column="name", payload_columns=("rank",))
        self.assert_refused("plaid", self.path, "no column 'colours'.*name, value, rank, colour", id_column="colours")

    if VERSION >= (1, 7):  # Older releases keep a file for each chunk.

        def test_an_index_whose_chunks_lie_only_in_the_merged_files(self):
            self.make(4, start_from_scratch=10)
            self.update(7, seed=100)
            self.assertFalse((self.path / "0.codes.npy").exists())
            self.assert_reconstruction(67)

    def test_a_damaged_index_is_refused_in_one_line(self):
        self.make(4, start_from_scratch=10)
        (self.path / "doclens.1.json").write_text("[1, 2]")
        self.assert_refused("plaid", self.path, "tokens.* doclens say 3|doclens say 3")
        (self.path / "doclens.1.json").write_text('["a"]')
        self.assert_refused("plaid", self.path, "doclens.1.json: must be a JSON array")
        np.save(self.path / "bucket_weights.npy", np.array([object()]), allow_pickle=True)
        self.assert_refused("plaid", self.path, "bucket_weights.npy: is not an array of NumPy")
        os.remove(self.path / "metadata.json")
        self.assert_refused("plaid", self.path, "has no metadata.json")

    def test_codes_are_kept_at_every_number_of_bits(self):
        for nbits in (1, 2, 4, 8):
            with self.subTest(nbits=nbits):
                self.make(nbits, start_from_scratch=10)
                target = self.folder / "collection"
                report = import_collection("plaid", self.path, target, storage="residual")
                self.assertEqual(report.storage, f"residual{nbits}")
                for (_, vectors, _), wanted in zip(read_collection(target), self.reconstruction(60), strict=True):
                    self.assertLessEqual(np.abs(vectors - wanted).max(), CODES_TOLERANCE)
                shutil.rmtree(self.path)
                shutil.rmtree(target)

    def test_a_collection_of_its_codes_is_served(self):
        self.make(4, start_from_scratch=10)
        self.assert_collection("plaid", self.path, storage="residual", tolerance=CODES_TOLERANCE)

    def test_a_collection_of_it_is_served(self):
        self.make(2, payloads=[{"title": f"t {i}"} for i in range(60)], start_from_scratch=10)
        self.assert_collection("plaid", self.path)


if __name__ == "__main__":
    main()
