"""Tests ids in Arrow tables, in every type that other libraries write, and columns of tensors.

python table_ids_test.py [PROGRAMS]"""

import decimal
import unittest
import uuid

import numpy as np
import pyarrow as pa
from stores_fixture import DIM, ImportTest, random_documents, string_ids
from tables_test import column, write_stream

from maxsim.importers.source import ID_NAMES

VECTORS = pa.list_(pa.list_(pa.float32()))


class TableIdsTest(ImportTest):
    def setUp(self):
        super().setUp()
        self.ids = string_ids(60)
        self.documents = random_documents(60)

    def test_ids_of_every_type_that_can_be_one(self):
        vectors = column(VECTORS, self.documents)
        uuids = [uuid.UUID(int=2**100 + number) for number in range(60)]
        numbers = [2**62 + number for number in range(60)]
        path = self.folder / "a.arrows"
        for ids, wanted in (
            (pa.array(self.ids, pa.string_view()), self.ids),
            (pa.array([id.encode() for id in self.ids]), self.ids),
            (pa.array([id.encode() for id in self.ids], pa.binary_view()), self.ids),
            (pa.array([id.bytes for id in uuids], pa.uuid()), list(map(str, uuids))),
            (pa.array(map(decimal.Decimal, numbers), pa.decimal128(38, 0)), numbers),
            (pa.array(numbers, pa.uint64()).dictionary_encode(), numbers),
        ):
            write_stream(pa.table({"id": ids, "vectors": vectors}), path, 11)
            with self.subTest(type=str(ids.type)):
                self.assert_source("arrow", path, wanted, self.documents)
        self.assert_imports("arrow", path, wanted, self.documents)

    def test_ids_are_found_by_the_names_of_arrays_too_and_in_any_case(self):
        vectors = column(VECTORS, self.documents)
        path = self.folder / "a.arrows"
        for name in (*ID_NAMES, "ID", "Doc_Id", "DocIDs"):
            write_stream(pa.table({"rank": [0] * 60, name: self.ids, "vectors": vectors}), path, 11)
            with self.subTest(name):
                self.assert_source("arrow", path, self.ids, self.documents)
        write_stream(pa.table({"PID": pa.array(range(60)), "ID": self.ids, "vectors": vectors}), path, 11)
        self.assert_source("arrow", path, self.ids, self.documents)

    def test_a_tensor_with_permuted_dimensions_is_refused(self):
        values = pa.array(np.zeros((3, 2 * DIM), np.float32).tolist(), pa.list_(pa.float32(), 2 * DIM))
        kind = pa.fixed_shape_tensor(pa.float32(), [DIM, 2], permutation=[1, 0])
        table = pa.table({"id": ["a", "b", "c"], "vectors": pa.ExtensionArray.from_storage(kind, values)})
        write_stream(table, self.folder / "a.arrows", 2)
        self.assert_refused("arrow", self.folder / "a.arrows", r"its dimensions in the order \[1, 0\]", dim=DIM)

    def test_a_column_named_like_an_id_is_never_passed_over(self):
        vectors = column(VECTORS, self.documents[:3])
        for ids, message in (
            (pa.array([1.0, None, 3.0]), "column 'id': is double; must be integers or strings: .*--id-column; pandas"),
            (pa.array([decimal.Decimal("1.5")] * 3), r"is decimal128\(2, 1\); must be"),
            (pa.array([[1], [2], [3]]), "is list<.*>; must be"),
            (pa.array([True, False, True]), "is bool; must be"),
            (pa.array([None, None, None]), "is null; must be"),
            (pa.array([b"a", b"\xff", b"c"]), r"row 1 is not UTF-8: b'\\xff'"),
            (pa.array(["a", None, "b"]).dictionary_encode(), "row 1 is null, but each document needs an id"),
            (pa.array([decimal.Decimal(2**63)] * 3), "id 9223372036854775808 must fit in 64 bits"),
        ):
            table = pa.table({"id": ids, "pid": pa.array([4, 5, 6]), "vectors": vectors})
            write_stream(table, self.folder / "a.arrows", 2)
            with self.subTest(type=str(ids.type)):
                self.assert_refused("arrow", self.folder / "a.arrows", message)
                self.assert_refused("arrow", self.folder / "a.arrows", message, id_column="id")
                named = {"id_column": "pid"}
                self.assert_source("arrow", self.folder / "a.arrows", [4, 5, 6], self.documents[:3], **named)


if __name__ == "__main__":
    unittest.main(verbosity=2)
