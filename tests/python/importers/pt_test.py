"""Tests imports of files of torch.save and of pickles: python pt_test.py PROGRAMS"""

import os
import pickle

from index_fixture import IndexTest, main, random_vectors  # isort: skip
import numpy as np
import torch

from maxsim.importers import ImportOptions, open_source


class Calls:
    def __init__(self, function, *arguments):
        self.pickled = (function, arguments)

    def __reduce__(self):
        return self.pickled


class PtTest(IndexTest):
    def setUp(self):
        super().setUp()
        self.vectors = random_vectors(20, 32, seed=1)
        self.tensors = [torch.from_numpy(document) for document in self.vectors]
        self.path = self.folder / "documents.pt"

    def test_a_list_of_tensors_of_every_type(self):
        for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
            with self.subTest(dtype=dtype):
                tensors = [tensor.to(dtype) for tensor in self.tensors]
                torch.save(tensors, self.path)
                wanted = [tensor.float().numpy() for tensor in tensors]
                self.assert_index("pt", self.path, range(20), wanted, tolerance=0)

    def test_parts_of_one_tensor(self):
        packed = torch.randn(300, 64)
        views = list(packed[:, ::2].split([100, 50, 150]))
        torch.save([*views, views[0][None]], self.path)
        wanted = [*(view.numpy() for view in views), views[0].numpy()]
        self.assert_index("pt", self.path, range(4), wanted, tolerance=0)

    def test_a_view_of_torch_with_the_opposite_sign(self):
        """For x.conj().imag, torch stores the elements of x.imag and a flag that says to negate them."""
        complex_documents = [torch.randn(5, 32, dtype=torch.cfloat) for _ in range(3)]
        views = [document.conj().imag for document in complex_documents]
        self.assertTrue(all(view.is_neg() for view in views))
        torch.save(views, self.path)
        wanted = [-document.imag.numpy() for document in complex_documents]
        self.assert_index("pt", self.path, range(3), wanted, tolerance=0)

    def test_a_file_of_torch_is_one_whatever_its_name_is(self):
        for number, zipped in enumerate((True, False)):
            path = self.folder / f"{number}.pickle"
            torch.save(self.tensors, path, _use_new_zipfile_serialization=zipped)
            self.assert_index("pt", path, range(20), self.vectors, tolerance=0)

    def test_a_dictionary_of_ids(self):
        ids = [f"doc/{number}" for number in range(20)]
        torch.save(dict(zip(ids, self.tensors)), self.path)
        self.assert_index("pt", self.path, ids, self.vectors, tolerance=0)
        torch.save(dict(zip(range(100, 120), self.tensors)), self.path, _use_new_zipfile_serialization=False)
        self.assert_index("pt", self.path, range(100, 120), self.vectors, tolerance=0)
        self.assert_collection("pt", self.path)

    def test_lists_side_by_side(self):
        ids, titles = [f"doc/{number}" for number in range(20)], [f"title {number}" for number in range(20)]
        columns = {"ids": ids, "embeddings": self.tensors, "title": titles, "year": list(range(20))}
        torch.save(columns, self.path)
        options = {"vectors_column": "embeddings", "id_column": "ids"}
        both = [{"title": title, "year": year} for year, title in enumerate(titles)]
        wanted = {"wanted_ids": ids, "vectors": self.vectors, "tolerance": 0}
        self.assert_index("pt", self.path, payloads=both, payload_columns=("*",), **wanted, **options)
        years = [{"year": year} for year in range(20)]
        self.assert_index("pt", self.path, payloads=years, payload_columns=("year",), **wanted, **options)
        for given, notes in (
            ((), ["columns title, year are not taken; --payload-columns takes them"]),
            (("year",), ["column title is not taken; --payload-columns takes it"]),
            (("*",), []),
        ):
            source = open_source("pt", str(self.path), ImportOptions(payload_columns=given, **options))
            self.assertEqual(source.notes, notes)
        self.assert_refused("pt", self.path, "--vectors-column names their list; there are ids, emb")
        self.assert_refused("pt", self.path, "has no list 'text'; there are ids, emb", vectors_column="text")
        self.assert_refused("pt", self.path, "--id-column needs a dictionary of lists", id_column="ids")
        torch.save({**columns, "ids": ids[:3]}, self.path)
        self.assert_refused("pt", self.path, "'ids' must be a list of 20 values", **options)

    def test_a_folder_of_files(self):
        folder = self.folder / "documents"
        folder.mkdir()
        for number in (2, 10, 1):
            torch.save(self.tensors[number], folder / f"doc{number}.pt")
        wanted = [self.vectors[number] for number in (1, 2, 10)]
        found = [document.id for document in self.open(folder)]
        self.assertEqual(found, ["doc1", "doc2", "doc10"])
        for document, vectors in zip(self.open(folder), wanted, strict=True):
            self.assertTrue(np.array_equal(document.vectors, vectors))

    def open(self, path):
        from maxsim.importers import ImportOptions, open_source

        return open_source("pt", str(path), ImportOptions())

    def test_a_pickle_of_arrays(self):
        path = self.folder / "documents.pkl"
        path.write_bytes(pickle.dumps({f"d{number}": array for number, array in enumerate(self.vectors)}))
        self.assert_index("pt", path, [f"d{number}" for number in range(20)], self.vectors, tolerance=0)

    def test_values_that_are_shared_do_not_grow(self):
        """Each tuple contains the previous tuple twice. After 40 steps it has 2^40 items, although the file is
        small."""
        shared, nested = (), []
        for _ in range(40):
            shared = (shared, shared)
        for _ in range(65):
            nested = [nested]
        columns = {"v": self.tensors[:1], "p": [shared], "n": [nested], "array": [[np.zeros(2_000_000)]]}
        torch.save(columns, self.path)
        for name, message in (
            ("p", "more than 1048576 bytes"),
            ("n", "deeper than the limit of 64"),
            ("array", "more"),
        ):
            options = {"vectors_column": "v", "payload_columns": (name,)}
            self.assert_refused("pt", self.path, f"id 0, field '{name}'.*{message}", **options)
        message = r"documents.pt: document 0: its id is \(a tuple of 2 items"
        self.assert_refused("pt", self.path, message, vectors_column="v", id_column="p")

    def test_what_holds_no_documents_is_refused(self):
        for value, message in (
            ([], "holds no document"),
            (torch.zeros(3, 4, 5), "--from padded"),
            ("text", "holds a str"),
            ([torch.zeros(3)], r"document 0: is a tensor \[3\] of f32; must be \[tokens, dim\]"),
            ([torch.zeros(3, 8, dtype=torch.int64)], "of i64; must be"),
            ([torch.zeros(3, 8), torch.zeros(3, 9)], r"shape \[3, 9\]; must be \[tokens, 8\]"),
            ([torch.zeros(3, 8), "text"], "document 1: is a str"),
            ([torch.zeros(3, 8), torch.zeros(0, 8)], "document 1, id 1: has no token vectors; --skip-empty"),
            ({("a", 1): torch.zeros(3, 8)}, "key of type tuple"),
            ({1: torch.zeros(3, 8), "a": torch.zeros(3, 8)}, 'id "a" is string, but those before it are int64'),
            ([torch.full((3, 8), float("nan"))], "document 0, id 0: vectors: token 0, column 0: nan is not finite"),
            (
                torch.nn.Linear(2, 2),
                r"documents\.pt: .*is a pickle of objects \(for instance a saved model\), .*Linear at byte",
            ),
            ([torch.zeros(3, 8), Calls(os.system, "false")], "calls .*system, which is refused"),
        ):
            with self.subTest(message=message):
                torch.save(value, self.path)
                self.assert_refused("pt", self.path, message)


if __name__ == "__main__":
    main()
