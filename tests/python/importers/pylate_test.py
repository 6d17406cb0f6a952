"""Tests imports of PyLate's indexes, made with fast-plaid or PyLate's Stanford backend: python pylate_test.py
PROGRAMS"""

import contextlib
import io
import json
import pickle
import sqlite3
import types

from index_fixture import IndexTest, main, random_vectors  # isort: skip
import torch
import torch.utils.cpp_extension

# Prevents the Stanford backend from compiling its search code when it is imported or loaded, which takes minutes. The
# test needs only the parts in Python, which write indexes and decode on the CPU.
torch.utils.cpp_extension.load = lambda name, **options: types.SimpleNamespace(**{name: None})

from pylate import indexes  # noqa: E402


@contextlib.contextmanager
def silence():
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


class PylateTest(IndexTest):
    dim = 32

    def make(self, ids, seed=1, **arguments):
        with silence():
            self.index = indexes.PLAID(str(self.folder), "index", override=True, show_progress=False, **arguments)
        self.path = self.folder / "index"
        self.add(ids, seed)

    def add(self, ids, seed):
        documents = random_vectors(len(ids), self.dim, seed)
        with silence():
            self.index.add_documents(documents_ids=ids, documents_embeddings=documents)
        return documents


class FastPlaidBackendTest(PylateTest):
    def reconstruction(self, ids):
        """By the ids of PyLate's own map."""
        inner = self.index._index
        numbers = inner._load_documents_ids_to_plaid_ids()
        return [v.numpy() for v in inner.fast_plaid.get_embeddings([numbers[i] for i in ids])]

    def test_ids_follow_additions_removals_and_updates(self):
        ids = [f"doc/{i} é" for i in range(50)]
        self.make(ids, nbits=4, device="cpu")
        self.assert_index("plaid", self.path, ids, self.reconstruction(ids))
        with silence():
            self.index.remove_documents([ids[3], ids[0], ids[49]])
        left = [i for i in ids if i not in (ids[3], ids[0], ids[49])]
        self.assert_index("plaid", self.path, left, self.reconstruction(left))
        new = [f"new{i}" for i in range(10)]
        self.add(new, seed=2)
        self.assert_index("plaid", self.path, left + new, self.reconstruction(left + new))
        with silence():
            self.index.update_documents([left[5]], random_vectors(1, self.dim, seed=3))
        updated = left[:5] + left[6:] + new + [left[5]]
        source = self.assert_index("plaid", self.path, updated, self.reconstruction(updated))
        self.assertIn("ids of PyLate (plaid_ids_to_documents_ids.pkl)", source.notes)
        # The folder inside PyLate's is the same index.
        self.assert_index("plaid", self.path / "fast_plaid_index", updated, self.reconstruction(updated))
        self.assert_collection("plaid", self.path)

    def test_integer_ids_stay_integers(self):
        self.make(list(range(100, 130)), nbits=2, device="cpu")
        self.assert_index("plaid", self.path, range(100, 130), self.reconstruction(range(100, 130)))

    def test_a_map_of_a_table_of_pickles_is_read(self):
        """Before version 1.3, PyLate kept its maps in sqlitedict tables. The test writes such a table itself."""
        ids = [f"d{i}" for i in range(20)]
        self.make(ids, nbits=2, device="cpu")
        (self.path / "plaid_ids_to_documents_ids.pkl").unlink()
        with contextlib.closing(sqlite3.connect(self.path / "plaid_ids_to_documents_ids.sqlite")) as table:
            table.execute("CREATE TABLE unnamed (key TEXT PRIMARY KEY, value BLOB)")
            rows = [(str(number), pickle.dumps(id, pickle.HIGHEST_PROTOCOL)) for number, id in enumerate(ids)]
            table.executemany("INSERT INTO unnamed VALUES (?, ?)", rows)
            table.commit()
        self.assert_index("plaid", self.path, ids, self.reconstruction(ids))

    def test_ids_of_a_file_and_a_map_that_does_not_fit(self):
        ids = [f"d{i}" for i in range(20)]
        self.make(ids, nbits=2, device="cpu")
        wanted = self.reconstruction(ids)
        listed = self.folder / "ids.txt"
        listed.write_text("".join(f"line {i}\n" for i in range(20)))
        self.assert_index("plaid", self.path, [f"line {i}" for i in range(20)], wanted, ids=str(listed))
        listed.write_text("one\n")
        self.assert_refused("plaid", self.path, "ids.txt: has 1 lines, but there are 20 documents", ids=str(listed))
        (self.path / "plaid_ids_to_documents_ids.pkl").write_bytes(pickle.dumps({0: "a"}))
        self.assert_refused("plaid", self.path, "has 1 ids for 20 documents, none for document 1")
        (self.path / "plaid_ids_to_documents_ids.pkl").write_bytes(pickle.dumps(print))
        self.assert_refused("plaid", self.path, "must map numbers of passages to ids")


class StanfordBackendTest(PylateTest):
    def reconstruction(self):
        """Decodes the vectors of all passages with the library's codec. Leaves out deleted passages."""
        from pylate.indexes.stanford_nlp.indexing.codecs.residual import ResidualCodec

        codec = ResidualCodec.load(str(self.path))
        vectors = []
        for chunk in range(json.loads((self.path / "metadata.json").read_text())["num_chunks"]):
            embeddings = ResidualCodec.Embeddings.load(str(self.path), chunk)
            lengths = json.loads((self.path / f"doclens.{chunk}.json").read_text())
            vectors += [v.float().numpy() for v in codec.decompress(embeddings).split(lengths)]
        return vectors

    dim = 64

    def test_vectors_are_the_librarys_own_at_every_number_of_bits(self):
        for nbits in (1, 2, 4, 8):
            with self.subTest(nbits=nbits):
                ids = [f"doc/{i}" for i in range(30)]
                self.make(ids, use_fast=False, nbits=nbits, embedding_size=self.dim)
                source = self.assert_index("colbert", self.path, ids, self.reconstruction(), tolerance=1e-6)
                self.assertIn("ids of PyLate (plaid_ids_to_documents_ids.pkl)", source.notes)

    def test_ids_follow_additions_and_removals(self):
        ids = [f"doc/{i}" for i in range(60)]
        self.make(ids, use_fast=False, nbits=2, embedding_size=self.dim)
        with silence():
            self.index.remove_documents([ids[3], ids[40]])
        kept = [i for i in ids if i not in (ids[3], ids[40])]
        vectors = [v for v in self.reconstruction() if len(v)]
        source = self.assert_index("colbert", self.path, kept, vectors, tolerance=1e-6)
        self.assertIn("2 deleted passages are left out", source.notes)
        self.add(["new/0", "new/1"], seed=5)
        vectors = [v for v in self.reconstruction() if len(v)]
        self.assert_index("colbert", self.path, [*kept, "new/0", "new/1"], vectors, tolerance=1e-6)
        self.assert_refused("plaid", self.path, "an index of colbert-ai, which --from colbert reads")


if __name__ == "__main__":
    main()
