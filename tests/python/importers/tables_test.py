"""Tests imports of Parquet, Arrow, Feather and data sets, written by pyarrow and datasets.

python tables_test.py [PROGRAMS]
"""

import datetime
import json
import pathlib
import subprocess
import sys
import unittest

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq

from stores_fixture import DIM, PROGRAMS, ImportTest, random_documents, string_ids

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "service"))

NESTED = {
    "list of lists of f32": (pa.list_(pa.list_(pa.float32())), np.float32),
    "list of lists of f64": (pa.list_(pa.list_(pa.float64())), np.float32),
    "list of fixed lists of f16": (pa.list_(pa.list_(pa.float16(), DIM)), np.float16),
    "list of fixed lists of f32": (pa.list_(pa.list_(pa.float32(), DIM)), np.float32),
    "large list of large lists of f16": (pa.large_list(pa.large_list(pa.float16())), np.float16),
}
FLATTENED = {
    "list of f32": (pa.list_(pa.float32()), np.float32),
    "large list of f64": (pa.large_list(pa.float64()), np.float32),
}


def column(type, documents):
    """Returns a column of documents of this Arrow type. None stands for a null row."""
    flat = not pa.types.is_nested(type.value_type)
    rows = [None if array is None else (array.reshape(-1) if flat else array).tolist() for array in documents]
    if pa.types.is_float16(type.value_type if flat else type.value_type.value_type):
        rows = [None if row is None else [[np.float16(x) for x in token] for token in row] for row in rows]
    return pa.array(rows, type)


def write_stream(table, path, rows_a_batch):
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows_a_batch)


class TablesTest(ImportTest):
    def setUp(self):
        super().setUp()
        self.ids = string_ids(60)
        self.documents = random_documents(60)

    def write_all(self, table):
        """Writes the table in every format, in several row groups or batches. Returns (kind, path) of each file."""
        paths = [self.folder / name for name in ("a.parquet", "a.feather", "z.feather", "a.arrows")]
        pq.write_table(table, paths[0], row_group_size=17)
        pa.feather.write_feather(table, paths[1], compression="uncompressed", chunksize=13)
        pa.feather.write_feather(table, paths[2], compression="zstd", chunksize=50)
        write_stream(table, paths[3], 11)
        return zip(("parquet", "arrow", "arrow", "arrow"), paths)

    def test_nested_lists_of_every_kind_give_the_same_vectors(self):
        for name, (type, dtype) in NESTED.items():
            table = pa.table({"id": self.ids, "vectors": column(type, self.documents)})
            for kind, path in self.write_all(table):
                with self.subTest(name, path=path.name):
                    self.assert_source(kind, path, self.ids, [array.astype(dtype) for array in self.documents])

    def test_flattened_lists_need_dim(self):
        for name, (type, _) in FLATTENED.items():
            table = pa.table({"id": self.ids, "vectors": column(type, self.documents)})
            for kind, path in self.write_all(table):
                with self.subTest(name, path=path.name):
                    self.assert_source(kind, path, self.ids, self.documents, dim=DIM)
                    # With dim 1024, no row is a whole number of token vectors.
                    self.assert_refused(kind, path, r"column 'vectors': row \d+ has \d+ values, .* dim 1024", dim=1024)
                    self.assert_refused(kind, path, "give --dim")

    def test_tensors_of_a_fixed_shape_are_documents_of_one_length(self):
        array = np.random.default_rng(2).standard_normal((5, 8, DIM)).astype(np.float32)
        tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(array)
        table = pa.table({"id": pa.array(range(5)), "vectors": tensors})
        for kind, path in self.write_all(table):
            with self.subTest(path=path.name):
                self.assert_source(kind, path, range(5), array)

    def test_null_and_empty_rows_are_documents_without_tokens(self):
        rows = list(self.documents)
        rows[0] = rows[20] = rows[59] = None
        rows[21] = np.empty((0, DIM), np.float32)
        kept = [index for index, row in enumerate(rows) if row is not None and len(row)]
        for name, (type, dtype) in {**NESTED, **FLATTENED}.items():
            options = {"dim": DIM} if name in FLATTENED else {}
            table = pa.table({"id": self.ids, "vectors": column(type, rows)})
            for kind, path in self.write_all(table):
                with self.subTest(name, path=path.name):
                    wanted = [np.empty((0, DIM), dtype) if row is None else row for row in rows]
                    found = [d.vectors.reshape(-1, DIM) for d in self.source(kind, path, options)]
                    for array, expected in zip(found, wanted):
                        self.assertTrue(np.array_equal(array, expected))
                    self.assert_refused(kind, path, r'id "doc/000 é": has no token vectors; --skip-empty', **options)
        code, out, err = self.run_command(
            *(
                "import",
                "--from",
                "arrow",
                path,
                "--skip-empty",
                "--dim",
                DIM,
                "--output",
                self.folder / "out",
                "--quiet",
            )
        )
        self.assertEqual((code, err), (0, ""))
        self.assertIn(f"documents  {len(kept)}\n", out)
        self.assertIn("skipped    4 documents without a token vector\n", out)

    def source(self, kind, path, options):
        from maxsim.importers import ImportOptions, open_source

        return open_source(kind, str(path), ImportOptions(**options))

    def test_values_below_a_null_row_are_passed_over(self):
        """In Arrow, a null row may have values in the child array, and even a wrong number of them. The importer must
        skip them."""
        values = pa.array(np.arange(10 * DIM + 3, dtype=np.float32))
        inner = [0, DIM, 2 * DIM, 2 * DIM + 3, *(3 + DIM * n for n in range(3, 11))]
        tokens = pa.ListArray.from_arrays(pa.array(inner, pa.int32()), values)
        mask = pa.array([False, True, False])
        rows = pa.ListArray.from_arrays(pa.array([0, 2, 3, 11], pa.int32()), tokens, mask=mask)
        flat = pa.ListArray.from_arrays(
            pa.array([0, 2 * DIM, 2 * DIM + 3, 10 * DIM + 3], pa.int32()), values, mask=mask
        )
        numbers = values.to_numpy()
        wanted = [numbers[: 2 * DIM], numbers[:0], numbers[2 * DIM + 3 :]]
        for name, array in (("nested", rows), ("flattened", flat)):
            path = self.folder / f"{name}.arrows"
            write_stream(pa.table({"id": [1, 2, 3], "v": array}), path, 3)
            with self.subTest(name):
                found = list(self.source("arrow", path, {"dim": DIM}))
                for document, expected in zip(found, wanted):
                    self.assertTrue(np.array_equal(document.vectors.reshape(-1), expected))

    def test_ids_and_payloads_are_exact(self):
        times = [datetime.datetime(2026, 1, 1, 12, 30) + datetime.timedelta(days=n) for n in range(60)]
        columns = {
            "key": pa.array([2**62 + n for n in range(60)]),
            "emb": column(NESTED["list of fixed lists of f32"][0], self.documents),
            "title": [f"Título {n}" if n % 7 else None for n in range(60)],
            "score": [n / 8 for n in range(60)],
            "tags": [["a", f"b{n}"] for n in range(60)],
            "meta": [{"page": n, "new": n % 2 == 0} for n in range(60)],
            "when": times,
        }
        ids = [2**62 + n for n in range(60)]
        rows = [{name: columns[name][n] for name in ("title", "score", "tags", "meta")} for n in range(60)]
        every = [{**row, "when": times[n].isoformat()} for n, row in enumerate(rows)]
        for kind, path in self.write_all(pa.table(columns)):
            with self.subTest(path=path.name):
                named = {"id_column": "key", "vectors_column": "emb", "payload_columns": tuple(rows[0])}
                self.assert_source(kind, path, ids, self.documents, rows, **named)
        self.assert_imports("arrow", path, ids, self.documents, every, id_column="key", payload_columns=("*",))

    def test_ids_are_numbers_where_no_column_is_named_id(self):
        table = pa.table({"emb": column(NESTED["list of fixed lists of f32"][0], self.documents)})
        for kind, path in self.write_all(table):
            source = self.assert_source(kind, path, range(60), self.documents)
            self.assertIn("the documents are numbered from 0", " ".join(source.notes))

    def test_string_ids_may_be_large_strings_or_a_dictionary(self):
        vectors = column(NESTED["list of fixed lists of f32"][0], self.documents)
        for ids in (pa.array(self.ids, pa.large_string()), pa.array(self.ids).dictionary_encode()):
            for kind, path in self.write_all(pa.table({"id": ids, "vectors": vectors})):
                with self.subTest(path=path.name, type=str(ids.type)):
                    self.assert_source(kind, path, self.ids, self.documents)

    def test_a_folder_of_files_is_one_source(self):
        type = NESTED["list of fixed lists of f32"][0]
        folder = self.folder / "parts"
        (folder / "inner").mkdir(parents=True)
        for number, name in enumerate(("a.parquet", "b.parquet", "inner/c.parquet")):
            part = slice(20 * number, 20 * number + 20)
            table = pa.table({"id": self.ids[part], "vectors": column(type, self.documents[part])})
            pq.write_table(table, folder / name)
            pa.feather.write_feather(table, folder / f"{number}.arrow")
        self.assert_source("parquet", folder, self.ids, self.documents)
        self.assert_source("arrow", folder, self.ids, self.documents)
        pq.write_table(table.drop_columns(["id"]), folder / "b.parquet")
        self.assert_refused("parquet", folder, r"b\.parquet: has no column 'id', which .*a\.parquet has")

    def test_errors_name_the_file_the_column_and_the_row(self):
        type = NESTED["list of lists of f32"][0]
        wide = list(self.documents)
        wide[33] = np.zeros((2, DIM + 1), np.float32)
        null_value = column(type, self.documents).to_pylist()
        null_value[34][0][3] = None
        null_token = column(type, self.documents).to_pylist()
        null_token[35][0] = None
        null_id = list(self.ids)
        null_id[36] = None
        vectors = column(type, self.documents)
        cases = {
            r"column 'v': row 33 has a token vector of 17 columns, token 0; the others have 16": {
                "v": column(type, wide)
            },
            r"column 'v': row 34 has a value that is null": {"v": pa.array(null_value, type)},
            r"column 'v': row 35 has a token vector that is null, token 0": {"v": pa.array(null_token, type)},
            r"column 'id': row 36 is null": {"id": null_id, "v": vectors},
            r'document 1: id "a" is already the id of document 0': {"id": ["a"] * 60, "v": vectors},
            r"2 columns may hold token vectors; name one with --vectors-column: v \(.*float.*\), w \(.*float.*\)$": {
                "v": vectors,
                "w": vectors,
            },
            r"no column holds token vectors, .*; it has n \(int64\)$": {"n": list(range(60))},
            r"no column holds token vectors, .*; it has n \(list<.*list<.*int64>>\), title \(string\)$": {
                "n": pa.array([[[1, 2]]] * 60),
                "title": ["t"] * 60,
            },
        }
        for message, columns in cases.items():
            for kind, path in self.write_all(pa.table(columns)):
                with self.subTest(message, path=path.name):
                    self.assert_refused(kind, path, message)
        table = pa.table({"id": self.ids, "v": vectors})
        for kind, path in self.write_all(table):
            self.assert_refused(kind, path, r"has no column 'x'; it has id, v", vectors_column="x")
            self.assert_refused(kind, path, r"has no column 'x'; it has id, v", id_column="x")
            self.assert_refused(kind, path, r"has no column 'x'; it has id, v", payload_columns=("x",))
            self.assert_refused(kind, path, r"column 'id': is string; token vectors are a list", vectors_column="id")
            self.assert_refused(kind, path, r"--mask: .* does not take it", mask="x")
            path.write_bytes(path.read_bytes()[:-200])
            self.assert_refused(kind, path, r"is not a (Parquet file|whole Arrow file or stream)")

    def test_a_row_group_or_batch_need_not_fit_into_memory(self):
        tokens, rows = 40, 8000
        values = pa.array(np.random.default_rng(1).standard_normal(rows * tokens * 128, dtype=np.float32))
        lists = pa.FixedSizeListArray.from_arrays(pa.FixedSizeListArray.from_arrays(values, 128), tokens)
        table = pa.table({"id": range(rows), "v": lists.cast(pa.list_(pa.list_(pa.float32(), 128)))})
        pq.write_table(table, self.folder / "a.parquet", row_group_size=rows)
        pa.feather.write_feather(table, self.folder / "a.arrow", compression="uncompressed", chunksize=rows)
        num_bytes = values.nbytes
        for kind, name in (("parquet", "a.parquet"), ("arrow", "a.arrow")):
            with self.subTest(kind):
                self.assert_streams(kind, self.folder / name, num_bytes, num_bytes // 2)

    def test_a_dry_run_says_what_is_there_and_writes_nothing(self):
        path = self.folder / "a.parquet"
        vectors = column(NESTED["list of fixed lists of f32"][0], self.documents)
        pq.write_table(pa.table({"id": self.ids, "vectors": vectors, "title": self.ids}), path)
        before = sorted(self.folder.iterdir())
        code, out, _ = self.run_command("import", "--from", "parquet", path, "--dry-run", "--quiet")
        self.assertIn("note       column title is not taken; --payload-columns takes it\n", out)
        command = ("import", "--from", "parquet", path, "--payload-columns", "title", "--dry-run", "--quiet")
        code, out, err = self.run_command(*command)
        self.assertEqual((code, err), (0, ""))
        self.assertNotIn("not taken", out)
        for line in ("documents  60\n", "dim        16\n", "payloads   60 documents: title\n", "ids: column 'id'\n"):
            self.assertIn(line, out)
        self.assertEqual(sorted(self.folder.iterdir()), before)

    def test_a_file_that_is_not_there_is_named_in_one_line(self):
        for kind in ("parquet", "arrow"):
            path = self.folder / "none"
            code, out, err = self.run_command("import", "--from", kind, path, "--dry-run")
            self.assertEqual((code, out, err), (1, "", f"maxsim import: {path}: No such file or directory\n"))

    def test_a_flag_that_the_kind_does_not_take_is_a_wrong_command_line(self):
        with self.assertRaises(SystemExit) as caught:
            self.run_command("import", "--from", "parquet", self.folder / "a.parquet", "--mask", "x", "--dry-run")
        self.assertEqual(caught.exception.code, 2)


class DatasetsTest(ImportTest):
    def setUp(self):
        super().setUp()
        self.ids = string_ids(40)
        self.documents = random_documents(40)
        self.titles = [{"title": f"title {n}"} for n in range(40)]

    def make(self, feature):
        import datasets

        datasets.disable_progress_bars()
        features = {"id": datasets.Value("string"), "vectors": feature, "title": datasets.Value("string")}
        titles = [row["title"] for row in self.titles]
        columns = {"id": self.ids, "vectors": self.documents, "title": titles}
        return datasets.Dataset.from_dict(columns, features=datasets.Features(features))

    def test_a_data_set_of_lists_or_arrays_in_several_files(self):
        from datasets import Array2D, List, Value

        payloads = {"payload_columns": ("title",)}
        for feature in (
            Array2D((None, DIM), "float32"),
            List(List(Value("float32"), length=DIM)),
            List(List(Value("float64"))),
        ):
            with self.subTest(str(feature)):
                path = self.folder / str(abs(hash(str(feature))))
                self.make(feature).save_to_disk(path, num_shards=3)
                self.assert_source("datasets", path, self.ids, self.documents, self.titles, **payloads)
        self.assert_imports("datasets", path, self.ids, self.documents, self.titles, **payloads)

    def test_a_selection_keeps_its_order(self):
        from datasets import Array2D

        order = [7, 3, 39, 0]
        self.make(Array2D((None, DIM), "float32")).select(order).save_to_disk(self.folder / "few")
        vectors = [self.documents[n] for n in order]
        self.assert_source("datasets", self.folder / "few", [self.ids[n] for n in order], vectors)

    def test_a_split_is_named_where_there_are_several(self):
        from datasets import Array2D, DatasetDict

        whole = self.make(Array2D((None, DIM), "float32"))
        path = self.folder / "splits"
        DatasetDict({"train": whole.select(range(30)), "test": whole.select(range(30, 40))}).save_to_disk(path)
        self.assert_source("datasets", path, self.ids[30:], self.documents[30:], split="test")
        self.assert_refused("datasets", path, "give --split, one of train, test")
        self.assert_refused("datasets", path / "train", "--split test: .* without splits", split="test")
        self.assert_refused("datasets", self.folder, "save_to_disk did not write it")

    def test_a_file_outside_the_folder_is_refused(self):
        from datasets import Array2D

        path = self.folder / "d"
        self.make(Array2D((None, DIM), "float32")).save_to_disk(path)
        state = json.loads((path / "state.json").read_text())
        state["_data_files"][0]["filename"] = "../x.arrow"
        (path / "state.json").write_text(json.dumps(state))
        self.assert_refused("datasets", path, "names a file outside of its folder")


class ServedTest(ImportTest):
    def test_a_server_answers_exactly_from_an_imported_collection(self):
        """maxsimctl verify compares the server's answers with FP64 scores. maxsim-shard must build exactly the same
        files."""
        from program_fixture import Maxsimd

        ids, documents = string_ids(120), random_documents(120, seed=9)
        payloads = [{"title": f"title {n}"} for n in range(120)]
        table = pa.table(
            {
                "id": ids,
                "vectors": column(pa.list_(pa.list_(pa.float32())), documents),
                "title": [p["title"] for p in payloads],
            }
        )
        pq.write_table(table, self.folder / "a.parquet")
        target = self.assert_imports(
            "parquet", self.folder / "a.parquet", ids, documents, payloads, payload_columns=("title",)
        )
        np.save(self.folder / "tokens.npy", np.concatenate(documents))
        np.save(self.folder / "lengths.npy", [len(array) for array in documents])
        lines = [json.dumps({"id": id, **payload}, ensure_ascii=False) for id, payload in zip(ids, payloads)]
        (self.folder / "docs.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        build = [PROGRAMS / "maxsim-shard", "build", "--tokens", self.folder / "tokens.npy", "--name", "collection"]
        build += ["--lengths", self.folder / "lengths.npy", "--ids", self.folder / "docs.jsonl"]
        subprocess.run([*build, "--output", self.folder / "built", "--storage", "f16"], check=True, capture_output=True)
        shards = [json.loads((f / "collection.json").read_text())["shards"] for f in (target, self.folder / "built")]
        self.assertEqual(shards[0], shards[1])

        queries = random_documents(6, seed=10)
        np.save(self.folder / "queries.npy", np.concatenate(queries))
        np.save(self.folder / "query_lengths.npy", [len(array) for array in queries])
        server = Maxsimd(PROGRAMS, self.folder / "server", target)
        try:
            verify = [
                PROGRAMS / "maxsimctl",
                "--server",
                f"127.0.0.1:{server.grpc_port}",
                "verify",
                "--collection",
                "demo",
            ]
            verify += ["--queries", self.folder / "queries.npy", "--query-lengths", self.folder / "query_lengths.npy"]
            done = subprocess.run(verify, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        finally:
            server.stop()


if __name__ == "__main__":
    unittest.main(verbosity=2)
