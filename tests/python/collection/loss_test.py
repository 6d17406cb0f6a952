"""Tests that all programs that read or write collections count the same tokens that lose precision in i8 storage.

python loss_test.py MAXSIM_SHARD
"""

import subprocess
import sys

import numpy as np

from collection_fixture import CollectionWriter, TemporaryFolderTest, main
from maxsim.collection import CollectionError
from maxsim.collection.dry_run import DryRunWriter

DIM, TOKENS = 64, 20
SHARD = sys.argv.pop(1) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else None
WARNING = (
    "i8 keeps too little of 209 tokens of 11 documents "
    "(190 became zeros, of 19 rounding took more than 25 % of the length)"
)


class LossTest(TemporaryFolderTest):
    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(5)
        self.documents = [rng.standard_normal((TOKENS, DIM)).astype(np.float32) for _ in range(100)]
        for document in self.documents:
            document /= np.linalg.norm(document, axis=1, keepdims=True)
        for document in self.documents[:10]:
            document[0] *= 1e4
        self.documents[10][0] *= 60
        self.documents[11][3] = 0  # was a zero vector before, so it is not lossy

    def write(self, storage="i8", make=CollectionWriter, **options):
        with make(self.folder / storage, dim=DIM, name="x", storage=storage, **options) as writer:
            for number, document in enumerate(self.documents):
                writer.add(f"doc-{number}", document)
        return writer.summary.loss

    def run_shard(self, *arguments):
        return subprocess.run([SHARD, *map(str, arguments)], capture_output=True, text=True)

    def test_the_writer_counts_them(self):
        for make in (CollectionWriter, DryRunWriter):
            loss = self.write(make=make)
            self.assertEqual((loss.num_documents, loss.num_zeroed, loss.num_coarse), (11, 190, 19))
            self.assertIn(str(loss), WARNING)
        for storage in ("f16", "f32"):
            self.assertEqual(self.write(storage).num_tokens, 0)

    def test_the_writer_refuses_them_where_it_shall(self):
        self.documents = self.documents[12:] + self.documents[:1]
        with self.assertRaisesRegex(CollectionError, 'document 88, id "doc-88": i8 keeps too little .*19 became zeros'):
            self.write(refuse_lossy=True)
        self.assertFalse((self.folder / "i8" / "collection.json").exists())
        self.documents.pop()
        self.assertEqual(self.write(refuse_lossy=True).num_tokens, 0)

    def test_maxsim_shard_counts_the_same(self):
        if SHARD is None:
            self.skipTest("needs maxsim-shard")
        np.save(self.folder / "t.npy", np.concatenate(self.documents))
        np.save(self.folder / "l.npy", np.full(len(self.documents), TOKENS))
        build = ["build", "--tokens", self.folder / "t.npy", "--lengths", self.folder / "l.npy", "--storage", "i8"]
        built = self.run_shard(*build, "--output", self.folder / "built")
        self.assertEqual(built.returncode, 0, built.stderr)
        self.assertIn(WARNING, built.stderr)
        # The stored elements do not show that a token was zero before.
        verified = self.run_shard("verify", self.folder / "built")
        self.assertEqual(verified.returncode, 0)
        self.assertIn("i8 keeps too little of 210 tokens of 12 documents (191 became zeros", verified.stderr)
        self.assertRegex(self.run_shard("inspect", self.folder / "built").stdout, "lossy in i8 +210 tokens of 12 docu")
        self.write("f32")
        quantised = self.run_shard("quantize", self.folder / "f32", self.folder / "q", "--no-comparison")
        self.assertIn(WARNING, quantised.stderr)
        for arguments in (
            [*build, "--output", self.folder / "refused", "--refuse-lossy"],
            ["quantize", self.folder / "f32", self.folder / "refused", "--refuse-lossy"],
        ):
            refused = self.run_shard(*arguments)
            self.assertEqual(refused.returncode, 1)
            self.assertRegex(refused.stderr, r"document 0, id .*: i8 keeps too little of 19 tokens of 1 document")
            self.assertFalse((self.folder / "refused").exists())


if __name__ == "__main__":
    main()
