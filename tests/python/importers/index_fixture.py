"""Checks imports of index folders, which tests make with the original libraries."""

import json
import os
import subprocess
import unittest

# Uses one CPU thread, because more threads would busy-wait and slow other tests down. The other variables prevent
# downloads and warnings.
os.environ.update(CUDA_VISIBLE_DEVICES="", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", OMP_NUM_THREADS="1")

import numpy as np
from stores_fixture import PROGRAMS, ImportTest, read_collection  # It puts the packages on the path.

from program_fixture import Maxsimd
from maxsim.importers import ImportOptions, import_collection, open_source

__all__ = ["PROGRAMS", "IndexTest", "random_vectors", "read_collection"]

# float16 rounds values below 1 by up to 2^-12, and the libraries compute with rounded values.
CODES_TOLERANCE = 1e-3


def random_vectors(count, dim, seed, longest=40):
    """Returns documents of 1 to `longest` tokens, as float32 token vectors of norm 1."""
    rng = np.random.default_rng(seed)
    documents = [rng.standard_normal((int(n), dim)).astype(np.float32) for n in rng.integers(1, longest + 1, count)]
    return [document / np.linalg.norm(document, axis=1, keepdims=True) for document in documents]


class IndexTest(ImportTest):
    def assert_index(
        self, kind, path, wanted_ids, vectors, payloads=None, tolerance=CODES_TOLERANCE, payloads_file=None, **options
    ):
        """Checks that the source has these documents, and that values of vectors differ by at most `tolerance`. Returns
        the source."""
        source = open_source(kind, str(path), ImportOptions(payloads=payloads_file, **options))
        found = list(source)
        self.assertEqual([document.id for document in found], list(wanted_ids))
        self.assertEqual(source.num_documents, len(found))
        for document, wanted in zip(found, vectors, strict=True):
            self.assertEqual(document.vectors.shape, np.shape(wanted))
            self.assertEqual(document.vectors.shape[1], source.dim)
            self.assertLessEqual(np.abs(document.vectors - wanted).max(initial=0), tolerance)
        if payloads is not None:
            self.assertEqual([document.payload for document in found], list(payloads))
        return source

    def assert_collection(self, kind, path, storage="f32", tolerance=0, **options):
        """Imports the source into a collection, which must have the source's documents with values that differ by at
        most `tolerance`. maxsim-shard must find no error in the collection, and a server's scores must match its files.
        """
        target = self.folder / "collection"
        report = import_collection(kind, path, target, storage=storage, options=ImportOptions(**options))
        source = list(open_source(kind, str(path), ImportOptions(**options)))
        found = read_collection(target)
        self.assertEqual(report.num_documents, len(source))
        for (document_id, vectors, payload), wanted in zip(found, source, strict=True):
            self.assertEqual(document_id, wanted.id)
            self.assertEqual(vectors.shape, wanted.vectors.shape)
            self.assertLessEqual(np.abs(vectors - wanted.vectors).max(), tolerance)
            self.assertEqual(payload, json.loads(json.dumps(wanted.payload)) if wanted.payload else None)
        self.assertIsNotNone(PROGRAMS, "the folder of the programs must be given")
        self.run_program("maxsim-shard", "verify", target)
        queries = np.concatenate([document.vectors[:8] for document in source[:5]]).astype(np.float32)
        lengths = np.array([min(8, len(document.vectors)) for document in source[:5]])
        np.save(self.folder / "queries.npy", queries)
        np.save(self.folder / "lengths.npy", lengths)
        server = Maxsimd(PROGRAMS, self.folder / "server", {"demo": target})
        self.addCleanup(server.stop)
        self.run_program(
            "maxsimctl", "--server", server.address, "verify", "--collection", "demo", "--path", target,
            "--queries", self.folder / "queries.npy", "--query-lengths", self.folder / "lengths.npy",
        )  # fmt: skip

    def run_program(self, name, *arguments):
        run = subprocess.run([PROGRAMS / name, *map(str, arguments)], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)


def main():
    unittest.main(verbosity=2)
