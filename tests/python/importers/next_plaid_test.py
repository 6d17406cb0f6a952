"""Tests imports of NextPlaid's indexes: python next_plaid_test.py PROGRAMS

NextPlaid is a Rust crate, which Python cannot use. So the test writes the layout itself, following NextPlaid's source
(next-plaid/src: index.rs, codec.rs, filtering.rs). It computes the expected vectors one value at a time, like
NextPlaid's decompress()."""

import contextlib
import json
import sqlite3

from index_fixture import IndexTest, main  # isort: skip
import numpy as np

DIM = 32
CENTROIDS = 12
LENGTHS = [[3, 1, 7, 2], [5, 40], [9]]


class NextPlaidTest(IndexTest):
    def make(self, nbits, merged=False):
        """Writes an index of random codes. Stores the vectors to which its documents decode in self.wanted."""
        rng = np.random.default_rng(nbits)
        self.path = self.folder / f"index{nbits}"
        self.path.mkdir()
        self.centroids = rng.standard_normal((CENTROIDS, DIM)).astype(np.float32)
        self.weights = np.sort(rng.standard_normal(2**nbits)).astype(np.float32) * np.float32(0.1)
        np.save(self.path / "centroids.npy", self.centroids)
        np.save(self.path / "bucket_weights.npy", self.weights)
        np.save(self.path / "bucket_cutoffs.npy", self.weights[1:])
        np.save(self.path / "avg_residual.npy", np.zeros(DIM, np.float32))
        self.wanted = []
        for chunk, lengths in enumerate(LENGTHS):
            codes = rng.integers(0, CENTROIDS, sum(lengths)).astype(np.int64)
            packed = rng.integers(0, 256, (sum(lengths), DIM * nbits // 8), dtype=np.uint8)
            np.save(self.path / f"{chunk}.codes.npy", codes)
            np.save(self.path / f"{chunk}.residuals.npy", packed)
            (self.path / f"doclens.{chunk}.json").write_text(json.dumps(lengths))
            rows = [self.decompress(int(code), row.tolist(), nbits) for code, row in zip(codes, packed, strict=True)]
            self.wanted += [np.array(part) for part in np.split(np.array(rows), np.cumsum(lengths)[:-1])]
        metadata = {"num_chunks": 3, "nbits": nbits, "num_partitions": CENTROIDS, "num_embeddings": 67}
        metadata.update(avg_doclen=9.6, num_documents=7, embedding_dim=DIM, next_plaid_compatible=True)
        (self.path / "metadata.json").write_text(json.dumps(metadata))

    def decompress(self, code, packed, nbits):
        values = []
        for byte in packed:
            for position in range(8 // nbits):
                segment = (byte >> (8 - nbits * (position + 1))) & ((1 << nbits) - 1)
                bucket = int(f"{segment:0{nbits}b}"[::-1], 2)
                values.append(float(self.centroids[code, len(values)]) + float(self.weights[bucket]))
        return np.array(values) / max(np.linalg.norm(values), 1e-12)

    def write_table(self, *statements):
        with contextlib.closing(sqlite3.connect(self.path / "metadata.db")) as table:
            for statement in statements:
                table.execute(statement)
            table.commit()

    def test_vectors_in_float32_at_every_number_of_bits(self):
        for nbits in (1, 2, 4, 8):
            with self.subTest(nbits=nbits):
                self.make(nbits)
                source = self.assert_index("plaid", self.path, range(7), self.wanted, tolerance=1e-6)
                self.assertIn("index of NextPlaid", source.notes[0])

    def test_an_index_without_metadata_is_numbered_and_served(self):
        self.make(4)
        self.assert_collection("plaid", self.path)

    def test_payloads_of_one_table_and_of_two(self):
        """The content of a document may be in a second table. Lists and objects are JSON in columns of type BLOB."""
        self.make(4)
        self.write_table(
            'CREATE TABLE METADATA ("_subset_" INTEGER PRIMARY KEY, "file" TEXT, "tags" BLOB, "line" INTEGER)',
            """INSERT INTO METADATA VALUES (0, 'a', '["x", 1]', 3), (2, 'c', NULL, 5), (6, 'g', '{"y": null}', 7)""",
        )
        payloads = [None] * 7
        payloads[0] = {"file": "a", "tags": ["x", 1], "line": 3}
        payloads[2] = {"file": "c", "line": 5}
        payloads[6] = {"file": "g", "tags": {"y": None}, "line": 7}
        self.assert_index("plaid", self.path, range(7), self.wanted, payloads=payloads, tolerance=1e-6)
        self.assert_refused("plaid", self.path, "document 1 has no id in the column 'file'", id_column="file")
        self.write_table("""UPDATE METADATA SET "tags" = '{"y": 1, "y": 2}' WHERE "_subset_" = 2""")
        repeated = "metadata.db: column 'tags': key \"y\" appears twice in one object"
        self.assert_refused("plaid", self.path, repeated)
        (self.path / "metadata.db").unlink()
        self.write_table(
            'CREATE TABLE METADATA ("_subset_" INTEGER NOT NULL, "_content_id_" INTEGER NOT NULL, "file" TEXT)',
            'CREATE TABLE METADATA_CONTENT ("_content_id_" INTEGER PRIMARY KEY, "code" TEXT)',
            "INSERT INTO METADATA VALUES (1, 10, 'b'), (0, 11, 'a')",
            "INSERT INTO METADATA_CONTENT VALUES (10, 'of b'), (11, 'of a')",
        )
        payloads = [{"file": "a", "code": "of a"}, {"file": "b", "code": "of b"}, *[None] * 5]
        self.assert_index("plaid", self.path, range(7), self.wanted, payloads=payloads, tolerance=1e-6)

    def test_lines_of_json_give_ids_and_payloads(self):
        self.make(4)
        lines = self.folder / "docs.jsonl"
        fields = [{"title": f"t{number}", "year": number} for number in range(7)]
        ids = [f"doc/{number}" for number in range(7)]
        lines.write_text("".join(json.dumps({"id": id, **row}) + "\n" for id, row in zip(ids, fields)))
        options = {"ids": str(lines), "tolerance": 1e-6}
        self.assert_index("plaid", self.path, ids, self.wanted, payloads=fields, **options)
        code, out, err = self.run_command("import", "--from", "plaid", self.path, "--ids", lines, "--dry-run")
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(out, r"ids +string\npayloads +7 documents: title, year\n")
        self.write_table(
            'CREATE TABLE METADATA ("_subset_" INTEGER PRIMARY KEY, "file" TEXT, "year" INTEGER)',
            "INSERT INTO METADATA VALUES (0, 'a', 1900), (2, 'c', 1902)",
        )
        both = [dict(row) for row in fields]
        both[0]["file"], both[2]["file"] = "a", "c"
        self.assert_index("plaid", self.path, ids, self.wanted, payloads=both, **options)
        self.assert_refused("plaid", self.path, "--ids, --id-column: give only one", ids=str(lines), id_column="file")
        lines.write_text('{"id": 1}\n')
        self.assert_refused("plaid", self.path, "docs.jsonl: has 1 lines, but there are 7 documents", ids=str(lines))

    def test_a_document_without_tokens_is_an_error_unless_it_is_skipped(self):
        self.make(2)
        (self.path / "doclens.0.json").write_text("[3, 0, 8, 2]")
        code, out, err = self.run_command("import", "--from", "plaid", self.path, "--dry-run")
        self.assertEqual((code, out), (1, ""))
        self.assertEqual(
            err, "maxsim import: document 1, id 1: has no token vectors; --skip-empty leaves such documents out\n"
        )
        code, out, err = self.run_command("import", "--from", "plaid", self.path, "--dry-run", "--skip-empty")
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(out, r"documents +6\ntokens +67, .*\ndim +32\nids +int64\n")
        self.assertRegex(out, r"skipped +1 documents")

    def test_damaged_codes_are_refused(self):
        self.make(2)
        codes = np.load(self.path / "1.codes.npy")
        for value in (-1, CENTROIDS):
            codes[3] = value
            np.save(self.path / "1.codes.npy", codes)
            self.assert_refused("plaid", self.path, f"a token has centroid {value} of 12")
        np.save(self.path / "1.codes.npy", codes[:-1])
        self.assert_refused("plaid", self.path, "chunk 1 has 44 tokens, but its doclens say 45")
        (self.path / "metadata.json").write_text('{"num_chunks": 3, "nbits": 3}')
        self.assert_refused("plaid", self.path, "nbits is 3; must be 1, 2, 4 or 8")
        (self.path / "metadata.json").write_text('{"num_chunks": 3}')
        self.assert_refused("plaid", self.path, "metadata.json: 'nbits' is None; must be a number")


if __name__ == "__main__":
    main()
