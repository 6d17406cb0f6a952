"""Tests imports of Vespa's dumps. The test writes the dumps following Vespa's reference ("Document JSON format", "vespa
visit", /document/v1), because there is no package of Vespa.

python vespa_test.py [PROGRAMS]
"""

import gzip
import json
import unittest

import numpy as np

from stores_fixture import ImportTest, random_documents

COUNT = 30
DIM = 16
FORMATS = ("visit", "pretty feed", "feed lines", "response")


def hexadecimal(row, cell):
    """Returns a token vector as hexadecimal digits: the big-endian bits of each cell."""
    if cell == "bfloat16":
        return (row.astype(np.float32).view(np.uint32) >> 16).astype(">u2").tobytes().hex().upper()
    return row.astype({"int8": "i1", "float": ">f4", "double": ">f8"}[cell]).tobytes().hex().upper()


class VespaTest(ImportTest):
    def setUp(self):
        super().setUp()
        # Integers from -128 to 127, which all cell types hold exactly.
        rng = np.random.default_rng(1)
        self.documents = [rng.integers(-128, 128, array.shape).astype(np.float32) for array in random_documents(COUNT)]
        self.ids = [f"doc/{n}: é" for n in range(COUNT)]
        self.payloads = [{"title": f"Título {n}", "views": 2**53 + n, "tags": ["a", "b"]} for n in range(COUNT)]

    def write(self, format, tensor, name="dump.json"):
        """Writes a dump of documents whose field colbert is tensor(document). Returns the path of the dump."""
        path = self.folder / name
        key = "put" if "feed" in format else "id"
        documents = []
        for id, array, payload in zip(self.ids, self.documents, self.payloads):
            fields = {"title": payload["title"], "colbert": tensor(array), **payload}
            documents.append({key: f"id:wiki:page::{id}", "fields": fields})
        if format == "response":
            half = COUNT // 2
            parts = [{"pathId": "/document/v1/", "documents": part} for part in (documents[:half], documents[half:])]
            text = "\n".join(map(json.dumps, parts))
        elif format == "pretty feed":
            text = json.dumps(documents, indent=2, ensure_ascii=False)
        else:
            text = "".join(json.dumps(document, ensure_ascii=False) + "\n" for document in documents)
        path.write_text(text, encoding="utf-8")
        return path

    def check(self, tensor, vectors=None, formats=("visit",), **options):
        for format in formats:
            path = self.write(format, tensor)
            with self.subTest(format):
                wanted = self.ids, self.documents if vectors is None else vectors, self.payloads
                options.setdefault("columns", DIM)
                source = self.assert_source(
                    "vespa", path, *wanted, num_documents=None, payload_columns=("*",), **options
                )
        return source

    def test_a_mapped_dimension_of_tokens_in_short_form(self):
        self.check(lambda array: {str(n): row.tolist() for n, row in enumerate(array)}, formats=FORMATS)

    def test_blocks_with_a_type(self):
        kind = f"tensor<float>(dt{{}},x[{DIM}])"
        blocks = {"type": kind}
        self.check(
            lambda array: {**blocks, "blocks": {str(n): row.tolist() for n, row in enumerate(array)}}, formats=FORMATS
        )
        addressed = lambda array: [{"address": {"dt": str(n)}, "values": row.tolist()} for n, row in enumerate(array)]  # noqa: E731
        self.check(lambda array: {**blocks, "blocks": addressed(array)})
        self.check(lambda array: {"blocks": addressed(array)})

    def test_tokens_stand_in_the_order_of_numeric_labels(self):
        def shuffled(array):
            order = np.random.default_rng(len(array)).permutation(len(array))
            return {"type": f"tensor<float>(token{{}},v[{DIM}])", "blocks": {str(n): array[n].tolist() for n in order}}

        self.check(shuffled)

    def test_tokens_with_words_for_labels_stand_as_in_the_file(self):
        self.check(lambda array: {f"w{len(array) - n}": row.tolist() for n, row in enumerate(array)})

    def test_hexadecimal_cells_of_every_type(self):
        for cell in ("int8", "bfloat16", "float", "double"):
            kind = f"tensor<{cell}>(token{{}},v[{DIM}])" if cell != "double" else f"tensor(token{{}},v[{DIM}])"

            def digits(array, cell=cell):
                return {str(n): hexadecimal(row, cell) for n, row in enumerate(array)}

            with self.subTest(cell):
                self.check(lambda array: {"type": kind, "blocks": digits(array)})
                # If the dump states no type, --dim tells how wide a cell is.
                self.check(digits, dim=DIM)
                self.assert_refused(
                    "vespa", self.folder / "dump.json", "hexadecimal digits and no type; give --dim|give --dim"
                )

    def test_bfloat16_digits_are_the_upper_half_of_a_float(self):
        self.documents = [
            np.random.default_rng(3).standard_normal(array.shape).astype(np.float32) for array in self.documents
        ]
        rounded = [(array.view(np.uint32) & 0xFFFF0000).view(np.float32) for array in self.documents]
        kind = f"tensor<bfloat16>(token{{}},v[{DIM}])"
        blocks = lambda array: {str(n): hexadecimal(row, "bfloat16") for n, row in enumerate(array)}  # noqa: E731
        self.check(lambda array: {"type": kind, "blocks": blocks(array)}, rounded)

    def test_the_example_of_the_reference(self):
        self.documents = [np.array([[1 / 9, 2 / 9, 3 / 9], [4 / 9, 5 / 9, 6 / 9], [7 / 9, 8 / 9, 1]], np.float32)]
        self.ids, self.payloads = ["a"], self.payloads[:1]
        tensor = {
            "foo": "3DE38E393E638E393EAAAAAB",
            "bar": "3EE38E393F0E38E43F2AAAAB",
            "baz": "3F471C723F638E393F800000",
        }
        self.check(lambda _: {"type": "tensor<float>(tag{},x[3])", "blocks": tensor}, columns=3)
        self.check(lambda _: tensor, columns=3, dim=3)

    def test_binary_columns_in_bytes(self):
        """Tests vectors of bits in the packing of Vespa's colbert-embedder and its function unpack_bits."""
        bits = [(array[:, :8] > 0).astype(np.float32) for array in self.documents]
        packed = [np.packbits(array.astype(np.uint8), axis=1).view(np.int8) for array in bits]
        kind = "tensor<int8>(token{},v[1])"
        by_length = {array.tobytes(): rows for array, rows in zip(self.documents, packed)}
        for form in ("numbers", "digits"):

            def blocks(array, form=form):
                rows = by_length[array.tobytes()]
                values = [row.tolist() if form == "numbers" else hexadecimal(row, "int8") for row in rows]
                return {"type": kind, "blocks": {str(n): value for n, value in enumerate(values)}}

            with self.subTest(form):
                self.check(blocks, bits, columns=8, unpack_bits=True)
                source = self.check(blocks, [rows.astype(np.float32) for rows in packed], columns=1)
                self.assertIn("--unpack-bits", " ".join(source.notes))
        self.write("visit", lambda array: {str(n): (row + 0.5).tolist() for n, row in enumerate(array)})
        self.assert_refused("vespa", self.folder / "dump.json", "--unpack-bits needs int8 cells", unpack_bits=True)

    def test_several_mapped_dimensions_are_one_list_of_tokens(self):
        def pages(array):
            cells = [
                {"address": {"token": str(n % 3), "page": str(n // 3)}, "values": row.tolist()}
                for n, row in enumerate(array)
            ]
            return {"type": f"tensor<float>(page{{}},token{{}},v[{DIM}])", "blocks": cells[::-1]}

        self.check(pages)

    def test_dense_tensors(self):
        self.check(lambda array: {"values": array.tolist()})
        self.check(lambda array: array.tolist())
        self.check(
            lambda array: {"type": f"tensor<float>(t[{len(array)}],v[{DIM}])", "values": array.reshape(-1).tolist()}
        )
        digits = lambda array: "".join(hexadecimal(row, "float") for row in array)  # noqa: E731
        self.check(lambda array: {"type": f"tensor<float>(t[{len(array)}],v[{DIM}])", "values": digits(array)})

    def test_verbose_cells(self):
        def cells(array):
            found = [
                {"address": {"token": str(n), "v": str(column)}, "value": float(value)}
                for n, row in enumerate(array)
                for column, value in enumerate(row)
                if value != 0
            ]
            return {"type": f"tensor<float>(token{{}},v[{DIM}])", "cells": found[::-1]}

        for array in self.documents:
            array[:, 0] = 1  # so that no row has only zeros: such a row would have no cell
        self.check(cells)
        self.write("visit", lambda array: cells(array)["cells"])
        self.assert_refused("vespa", self.folder / "dump.json", "has cells without a type")

    def test_cells_outside_of_their_type_are_refused(self):
        def cells(*addresses, dim=DIM):
            found = [{"address": {"token": "0", "v": column}, "value": 1.0} for column in addresses]
            return lambda _: {"type": f"tensor<float>(token{{}},v[{dim}])", "cells": found}

        for column in ("-1", str(DIM), "1" * 5000, "x"):
            path = self.write("visit", cells("0", column))
            self.assert_refused("vespa", path, "is not a number at 0 to 15")
        path = self.write("visit", cells("0", dim=2 * 10**12))
        self.assert_refused("vespa", path, "2000000000000 columns; must be 1 to 4096")
        self.assert_refused("vespa", self.write("visit", cells("0", dim="9" * 5000)), "not a tensor type|no document has")

    def test_labels_of_many_digits_are_ordered_as_numbers(self):
        self.documents = [np.arange(3 * DIM, dtype=np.float32).reshape(3, DIM)]
        self.ids, self.payloads = ["a"], self.payloads[:1]
        kind = f"tensor<float>(token{{}},v[{DIM}])"
        labels = ("9" * 4999, "1" + "0" * 4999, "007")
        order = (1, 2, 0)
        blocks = lambda array: {label: array[n].tolist() for label, n in zip(labels, order)}  # noqa: E731
        self.check(lambda array: {"type": kind, "blocks": blocks(array)})

    def test_json_that_is_nested_too_deeply_is_refused(self):
        path = self.folder / "dump.json"
        for text in ("[" * 200_000, '{"id": ' + "[" * 200_000):
            path.write_text(text)
            self.assert_refused("vespa", path, r"dump\.json: JSON at character \d+ is nested too deeply")

    def test_ids_whole_or_of_a_field_and_documents_of_one_type(self):
        path = self.write("visit", lambda array: array.tolist())
        with open(path, "a") as file:
            file.write('{"id": "id:wiki:other:g=1:x", "fields": {"title": "", "colbert": [[1, 2]]}}\n')
        options = {"table": "page", "num_documents": None, "columns": DIM}
        self.assert_source("vespa", path, self.ids, self.documents, **options)
        whole = [f"id:wiki:page::{id}" for id in self.ids]
        self.assert_source("vespa", path, whole, self.documents, id_column="documentid", **options)
        views = [payload["views"] for payload in self.payloads]
        self.assert_source("vespa", path, views, self.documents, id_column="views", **options)
        self.assert_refused("vespa", path, r"document 30, .* has values \[1, 2\]; must be rows of 16 columns")
        self.assert_refused(
            "vespa", path, r"field 'tags' is \['a', 'b'\]; must be a string or", id_column="tags", table="page"
        )

    def test_documents_without_the_field_have_no_tokens(self):
        path = self.write("visit", lambda array: array.tolist())
        lines = path.read_text().splitlines()
        lines.insert(1, '{"id": "id:wiki:page::none", "fields": {"title": "x"}}')
        path.write_text("\n".join(lines))
        self.assert_refused("vespa", path, 'id "none": has no token vectors; --skip-empty')
        code, out, _ = self.run_command("import", "--from", "vespa", path, "--dry-run", "--skip-empty", "--quiet")
        self.assertEqual(code, 0)
        self.assertIn("skipped    1 documents", out)

    def test_a_compressed_dump_becomes_a_collection(self):
        path = self.write("visit", lambda array: {str(n): row.tolist() for n, row in enumerate(array)})
        packed = self.folder / "dump.json.gz"
        packed.write_bytes(gzip.compress(path.read_bytes()))
        self.assert_imports("vespa", packed, self.ids, self.documents, self.payloads, payload_columns=("*",))
        packed.write_bytes(packed.read_bytes()[:-50])
        self.assert_refused("vespa", packed, r"dump\.json\.gz: cannot be read to its end")

    def test_values_longer_than_what_is_read_at_once(self):
        self.documents = [np.arange(n * DIM, dtype=np.float32).reshape(n, DIM) for n in (60_000, 1, 20_000)]
        self.ids, self.payloads = ["a", "b", "c"], self.payloads[:3]
        self.check(lambda array: array.tolist(), formats=("visit", "pretty feed"))

    def test_a_block_has_the_size_that_its_type_says(self):
        n = list(map(float, range(2 * DIM)))
        kind = f"tensor<float>(t{{}},x[{DIM}])"
        deep = f"tensor<float>(t{{}},p[2],x[{DIM}])"
        dense = f"tensor<float>(t[3],x[{DIM}])"
        address = {"address": {"t": "0"}, "values": n[:DIM]}
        for tensor, message, options in (
            ({"type": kind, "blocks": {"0": n}}, r"has values \[32\]; must be rows of 16 columns: \[16\]", {}),
            ({"type": kind, "blocks": {"0": n[:8]}}, r"has values \[8\]; .*: \[16\]", {}),
            ({"type": kind, "blocks": {"0": [n[:DIM], n[DIM:]]}}, r"has values \[2, 16\]; .*: \[16\]", {}),
            ({"type": kind, "blocks": {"0": hexadecimal(np.array(n), "float")}}, r"has values \[32\]", {}),
            ({"type": deep, "blocks": {"0": n + n}}, r"has values \[64\]; .*: \[2, 16\]", {}),
            ({"type": deep, "blocks": {"0": [n[:DIM]]}}, r"has values \[1, 16\]; .*: \[2, 16\]", {}),
            ({"type": dense, "values": n}, r"has values \[32\]; .*: \[3, 16\]", {}),
            ({"type": kind, "values": n}, "has values without labels of t", {}),
            ({"type": kind, "blocks": [address, address]}, "has two blocks of the label '0'", {}),
            ({"type": f"tensor(a{{}},b{{}},x[{DIM}])", "blocks": {"0": n}}, "but its type has 2", {}),
            ({"blocks": {"0": n[:DIM], "1": n}}, r"has values \[32\]; .*; several token vectors in one need", {}),
            ({"blocks": {"0": n}}, r"has values \[32\]; must be rows of 16 columns", {"dim": DIM}),
            ({"0": [n[:DIM]], "1": [n[:DIM], n[DIM:]]}, r"has values \[2, 16\]; .*: \[1, 16\]", {}),
            (
                {"type": dense, "cells": [{"address": {"t": "3", "x": "0"}, "value": 1.0}]},
                r"cell .* is outside of t\[3\]",
                {},
            ),
        ):
            with self.subTest(message, tensor=str(tensor)[:60]):
                self.assert_refused("vespa", self.write("visit", lambda _, tensor=tensor: tensor), message, **options)
        self.documents = [np.array(n + n, np.float32).reshape(4, DIM)]
        self.ids, self.payloads = ["a"], self.payloads[:1]
        self.check(lambda _: {"type": deep, "blocks": {"0": n, "1": [n[:DIM], n[DIM:]]}})

    def test_errors_name_the_document(self):
        good = {"0": [1.0] * DIM}
        kind = f"tensor<float>(token{{}},v[{DIM}])"
        cases = (
            ({"0": [1.0, "x"]}, "holds .* must be numbers in lists of one length"),
            ({"0": [1.0] * 8}, "has token vectors of 8 columns; must have 16|must be rows of 16 columns"),
            ({"type": kind, "blocks": {"0": "00FF"}}, "has values .* must be rows of 16 columns|not whole float cells"),
            ({"type": kind, "blocks": {"0": "zz"}}, "must be hexadecimal digits"),
            ({"type": "matrix(x)", "blocks": good}, "is not a tensor type of Vespa"),
            ({"type": kind, "blocks": good, "cells": []}, "has blocks and cells of blocks, values and cells"),
            ([{"address": {"token": "0"}}], "is not a tensor: an entry lacks 'values'"),
            (5, "holds 5, not a tensor of token vectors"),
        )
        path = self.folder / "dump.json"
        first = json.dumps({"id": "id:a:b::0", "fields": {"colbert": good}})
        for tensor, message in cases:
            path.write_text(first + "\n" + json.dumps({"id": "id:a:b::1", "fields": {"colbert": tensor}}))
            with self.subTest(message):
                self.assert_refused(
                    "vespa", path, r"dump\.json: document 1, \"id:a:b::1\": field 'colbert'.*(" + message + ")"
                )
        for text, message in (
            ('{"update": "id:a:b::1", "fields": {}}', "document 1: holds the operation 'update' of \"id:a:b::1\""),
            ('{"remove": "id:a:b::1"}', "document 1: holds the operation 'remove'"),
            ('{"id": "x", "fields": {}}', 'document 1, "x": "x" is not id:NAMESPACE:TYPE:KEYS:NAME'),
            ('{"id": "id:a:b::1"}', 'document 1: must have "put" or "id" and "fields"; it has id'),
            ("5", "document 1: is 5; must be an object"),
            ('{"id": ', r"no JSON at character \d+"),
            ('{"id": "id:a:b::1", "fields": {"x": 1, "x": 2}}', r'JSON at character \d+: key "x" appears twice'),
        ):
            path.write_text(first + "\n" + text)
            with self.subTest(message):
                self.assert_refused("vespa", path, message)
        path.write_text("[" + first)
        self.assert_refused("vespa", path, "ends inside its array")
        path.write_text('{"id": "id:a:b::0", "fields": {"x": 1}}')
        self.assert_refused("vespa", path, "no document has a field that holds token vectors")
        path.write_text(json.dumps({"id": "id:a:b::0", "fields": {"x": good, "y": good}}))
        self.assert_refused("vespa", path, "give --vectors-column, one of x, y")


if __name__ == "__main__":
    unittest.main(verbosity=2)
