"""Imports of indexes that byaldi makes: python byaldi_test.py PROGRAMS

The model and the PDF reader are fakes. byaldi's own code makes and writes the index."""

import contextlib
import gzip
import io
import json
import sys
import types

from index_fixture import IndexTest, main  # isort: skip
import torch
from PIL import Image

DIM = 128


class FakeModel:
    """A fake model that makes 5 to 20 bfloat16 vectors of norm 1 per image. The width of the image determines the
    vectors."""

    dtype = torch.bfloat16

    @classmethod
    def from_pretrained(cls, *arguments, **options):
        return cls()

    def eval(self):
        return self

    def to(self, device):
        return self

    def __call__(self, pixels):
        generator = torch.Generator().manual_seed(int(pixels))
        vectors = torch.randn(1, 5 + int(pixels) % 16, DIM, generator=generator)
        return torch.nn.functional.normalize(vectors, dim=-1).bfloat16()


class FakeProcessor:
    @classmethod
    def from_pretrained(cls, *arguments, **options):
        return cls()

    def process_images(self, images):
        return {"pixels": torch.tensor(images[0].width)}


models = types.ModuleType("colpali_engine.models")
models.ColPali = models.ColQwen2 = FakeModel
models.ColPaliProcessor = models.ColQwen2Processor = FakeProcessor
reader = types.ModuleType("pdf2image")


def convert_from_path(path, output_folder, **options):
    """Returns three pages. The width of the first page is the file's size in bytes."""
    pages = []
    for page in range(3):
        pages.append(f"{output_folder}/{page}.png")
        Image.new("RGB", (path.stat().st_size + page, 2)).save(pages[-1])
    return pages


reader.convert_from_path = convert_from_path
sys.modules.update({"colpali_engine": types.ModuleType("colpali_engine"), "colpali_engine.models": models})
sys.modules["pdf2image"] = reader

from byaldi import RAGMultiModalModel  # noqa: E402


class ByaldiTest(IndexTest):
    def make(self, names, metadata=None, **arguments):
        documents = self.folder / "documents"
        documents.mkdir()
        for width, name in enumerate(names, start=30):
            if name.endswith(".pdf"):
                (documents / name).write_bytes(b"x" * width)
            else:
                Image.new("RGB", (width, 2)).save(documents / name)
        with contextlib.redirect_stdout(io.StringIO()):
            self.model = RAGMultiModalModel.from_pretrained(
                "colpali", index_root=str(self.folder), verbose=0, device="cpu"
            )
            self.model.index(documents, "index", metadata=metadata, **arguments)
        self.path = self.folder / "index"

    def vectors(self):
        return [page.float().numpy() for page in self.model.model.indexed_embeddings]

    def file_names(self):
        return self.model.model.doc_ids_to_file_names

    def test_images_have_the_ids_of_their_documents(self):
        metadata = [{"year": 2000 + number} for number in range(6)]
        self.make([f"{number}.png" for number in range(6)], metadata, doc_ids=[5, 3, 1, 0, 2, 4])
        entries = self.model.model.embed_id_to_doc_id
        ids = [entries[number]["doc_id"] for number in range(6)]
        self.assertEqual(sorted(ids), list(range(6)))
        names = self.file_names()
        payloads = [{"doc_id": i, "page_num": 1, "file_name": names[i], "metadata": metadata[i]} for i in ids]
        source = self.assert_index("byaldi", self.path, ids, self.vectors(), payloads=payloads, tolerance=0)
        self.assertIn("byaldi 0.0.7, model colpali", source.notes[0])
        years = [{"metadata": metadata[i]} for i in ids]
        self.assert_index("byaldi", self.path, ids, self.vectors(), payloads=years, payload_columns=("metadata",))
        self.assert_refused("byaldi", self.path, "no column 'year'.* doc_id, page_num", payload_columns=("year",))
        self.assert_collection("byaldi", self.path)

    def test_pages_of_documents_have_ids_of_their_own(self):
        self.make(["a.pdf", "b.pdf", "c.png"], store_collection_with_index=True)
        entries = [entry for _, entry in sorted(self.model.model.embed_id_to_doc_id.items())]
        self.assertEqual(len(entries), 7)
        ids = [f"{entry['doc_id']}#{entry['page_id']}" for entry in entries]
        source = self.assert_index("byaldi", self.path, ids, self.vectors(), tolerance=0)
        self.assertIn("the images of the pages are not imported", source.notes)
        self.assertEqual(next(iter(source)).payload["file_name"], self.file_names()[entries[0]["doc_id"]])

    def test_more_pages_than_a_file_holds_keep_their_order(self):
        self.make(["a.png"])
        # Each file holds 500 pages, and its name has the number of its first page.
        with contextlib.redirect_stdout(io.StringIO()):
            for width in range(31, 31 + 1100):
                image = Image.new("RGB", (width, 2))
                self.model.model._add_to_index(image, False, doc_id=width)
            self.model.model._export_index()
        names = sorted(path.name for path in (self.path / "embeddings").iterdir())
        self.assertEqual(names, ["embeddings_0.pt", "embeddings_1000.pt", "embeddings_500.pt"])
        self.assert_index("byaldi", self.path, [0, *range(31, 31 + 1100)], self.vectors(), tolerance=0)

    def test_a_damaged_index_is_refused_in_one_line(self):
        self.make(["a.png", "b.png"])
        path = self.path / "embed_id_to_doc_id.json.gz"
        entries = json.loads(gzip.decompress(path.read_bytes()))
        path.write_bytes(gzip.compress(json.dumps({"0": entries["0"]}).encode()))
        self.assert_refused("byaldi", self.path, "more pages than embed_id_to_doc_id.json.gz, which has 1")
        path.write_bytes(b"no gzip")
        self.assert_refused("byaldi", self.path, "embed_id_to_doc_id.json.gz: is not JSON")
        (self.path / "index_config.json.gz").unlink()
        self.assert_refused("byaldi", self.path, "has no index_config.json.gz")


if __name__ == "__main__":
    main()
