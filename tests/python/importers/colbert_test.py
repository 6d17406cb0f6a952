"""Tests imports of indexes that colbert-ai makes with a BERT of random weights: python colbert_test.py PROGRAMS

The test writes the files that RAGatouille keeps next to an index, as its release 0.0.9 does, because RAGatouille's
packages do not work with a current torch."""

import contextlib
import io
import json
import random
import types

from index_fixture import IndexTest, main  # isort: skip
import torch
import torch.utils.cpp_extension

# Prevents colbert-ai from compiling its search code when it loads an index, which takes minutes. The test needs only
# the parts in Python, which write indexes and decode on the CPU.
torch.utils.cpp_extension.load = lambda name, **options: types.SimpleNamespace(**{name: None})

from colbert import Indexer, IndexUpdater, Searcher  # noqa: E402
from colbert.indexing.codecs.residual import ResidualCodec  # noqa: E402
from colbert.infra import ColBERTConfig, Run, RunConfig  # noqa: E402
from transformers import BertConfig, BertModel, BertTokenizerFast  # noqa: E402

SPECIAL = ["[PAD]", "[unused0]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = [first + second for first in "abcdefghijklmnopqrst" for second in "abcdefghijklmnopqrst"]


def make_checkpoint(folder):
    folder.mkdir()
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join([*SPECIAL, *WORDS, "."]) + "\n")
    BertTokenizerFast(str(vocabulary)).save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    BertModel(BertConfig(vocab_size=len(SPECIAL) + len(WORDS) + 1, **sizes)).save_pretrained(folder)
    return str(folder)


class ColbertTest(IndexTest):
    def setUp(self):
        super().setUp()
        self.checkpoint = make_checkpoint(self.folder / "bert")
        rng = random.Random(1)
        self.texts = [" ".join(rng.choices(WORDS, k=rng.randint(3, 30))) for _ in range(80)]
        self.silence = contextlib.ExitStack()
        for redirect in (contextlib.redirect_stdout, contextlib.redirect_stderr):
            self.silence.enter_context(redirect(io.StringIO()))
        self.addCleanup(self.silence.close)
        run = RunConfig(nranks=1, gpus=0, root=str(self.folder), experiment="test", avoid_fork_if_possible=True)
        self.silence.enter_context(Run().context(run))

    def make(self, nbits, dim=32):
        self.config = ColBERTConfig(nbits=nbits, dim=dim, doc_maxlen=40, kmeans_niters=2, checkpoint=self.checkpoint)
        indexer = Indexer(checkpoint=self.checkpoint, config=self.config)
        self.path = self.folder / "test" / "indexes" / f"index{nbits}"
        indexer.index(name=self.path.name, collection=self.texts, overwrite=True)
        self.assertTrue((self.path / "0.codes.pt").exists())

    def update(self, added, removed):
        # optimize_ivf pads the inverted lists, but the library's updater expects lists without padding. So this removes
        # the padding.
        lists, lengths = torch.load(self.path / "ivf.pid.pt")
        torch.save((lists[: lengths.sum()], lengths), self.path / "ivf.pid.pt")
        searcher = Searcher(index=self.path.name, checkpoint=self.checkpoint, collection=self.texts)
        updater = IndexUpdater(self.config, searcher, self.checkpoint)
        if added:
            updater.add(added)
        updater.remove(removed)
        updater.persist_to_disk()

    def reconstruction(self):
        """Decodes the vectors of all passages with the library's codec. Leaves out deleted passages."""
        codec = ResidualCodec.load(str(self.path))
        vectors = []
        for chunk in range(json.loads((self.path / "metadata.json").read_text())["num_chunks"]):
            embeddings = ResidualCodec.Embeddings.load(str(self.path), chunk)
            lengths = json.loads((self.path / f"doclens.{chunk}.json").read_text())
            vectors += [passage.float().numpy() for passage in codec.decompress(embeddings).split(lengths)]
        return vectors

    def test_vectors_are_the_librarys_own_at_every_number_of_bits(self):
        for nbits in (1, 2, 4):
            with self.subTest(nbits=nbits):
                self.make(nbits)
                source = self.assert_index("colbert", self.path, range(80), self.reconstruction(), tolerance=1e-6)
                self.assertIn(f"{nbits} bits", source.notes[0])

    def test_eight_bits_and_a_collection_of_it_is_served(self):
        self.make(8, dim=64)
        self.assert_index("colbert", self.path, range(80), self.reconstruction(), tolerance=1e-6)
        self.assert_collection("colbert", self.path)

    def test_updates_and_deletions_are_followed(self):
        self.make(2)
        self.update(self.texts[:5], [3, 7])
        vectors = self.reconstruction()
        self.assertEqual(len(vectors), 85)
        left = [number for number in range(85) if number not in (3, 7)]
        source = self.assert_index("colbert", self.path, left, [vectors[n] for n in left], tolerance=1e-6)
        self.assertIn("2 deleted passages are left out", source.notes)

    def test_several_chunks(self):
        self.make(2)
        # Cuts the only chunk in two, as in the layout of a larger index.
        codes, residuals = torch.load(self.path / "0.codes.pt"), torch.load(self.path / "0.residuals.pt")
        lengths = json.loads((self.path / "doclens.0.json").read_text())
        wanted, tokens = self.reconstruction(), sum(lengths[:30])
        for chunk, part, of in ((0, slice(tokens), lengths[:30]), (1, slice(tokens, None), lengths[30:])):
            torch.save(codes[part], self.path / f"{chunk}.codes.pt")
            torch.save(residuals[part], self.path / f"{chunk}.residuals.pt")
            (self.path / f"doclens.{chunk}.json").write_text(json.dumps(of))
        self.change_metadata(num_chunks=2)
        self.assert_index("colbert", self.path, range(80), wanted, tolerance=1e-6)
        (self.path / "doclens.1.json").write_text("[1]")
        self.assert_refused("colbert", self.path, "1.codes.pt: has .* tokens, but doclens.1.json says 1")

    def change_metadata(self, **values):
        path = self.path / "metadata.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **values}))

    def write_ragatouille(self, documents, metadata):
        """Writes RAGatouille's files. `documents` has, for each passage, the id of its document."""
        for name, value in (
            ("pid_docid_map.json", {str(passage): document for passage, document in enumerate(documents)}),
            ("collection.json", self.texts),
            ("docid_metadata_map.json", metadata),
        ):
            (self.path / name).write_text(json.dumps(value))

    def test_documents_of_ragatouille(self):
        self.make(2)
        documents = [f"doc {passage}" for passage in range(80)]
        self.write_ragatouille(documents, {"doc 1": {"source": "a"}})
        payloads = [{"content": text, "document_id": document} for text, document in zip(self.texts, documents)]
        payloads[1]["document_metadata"] = {"source": "a"}
        wanted = self.reconstruction()
        self.assert_index("colbert", self.path, documents, wanted, payloads=payloads, tolerance=1e-6)
        contents = [{"content": text} for text in self.texts]
        self.assert_index("colbert", self.path, documents, wanted, payloads=contents, payload_columns=("content",))
        self.assert_refused("colbert", self.path, "no column 'title'", payload_columns=("title",))

    def test_passages_of_one_document_of_ragatouille_have_ids_of_their_own(self):
        self.make(2)
        documents = [f"doc {passage // 3}" for passage in range(80)]
        self.write_ragatouille(documents, {})
        ids = [f"{document}#{passage % 3}" for passage, document in enumerate(documents)]
        self.assert_index("colbert", self.path, ids, self.reconstruction())
        self.update([], [4])
        vectors = [passage for passage in self.reconstruction() if len(passage)]
        del ids[4]
        # When RAGatouille deletes a passage, it removes the passage from its map and its list of texts. So the later
        # texts get new numbers.
        path = self.path / "pid_docid_map.json"
        path.write_text(
            json.dumps({number: id for number, id in json.loads(path.read_text()).items() if number != "4"})
        )
        (self.path / "collection.json").write_text(json.dumps(self.texts[:4] + self.texts[5:]))
        ids[4] = "doc 1#1"
        source = self.assert_index("colbert", self.path, ids, vectors)
        self.assertIn("collection.json is left out", " ".join(source.notes))
        self.assertTrue(all("content" not in document.payload for document in source))

    def test_texts_of_a_file(self):
        self.make(2)
        path = self.folder / "collection.tsv"
        path.write_text("".join(f"{number}\t{text}\ttitle {number}\n" for number, text in enumerate(self.texts)))
        payloads = [{"content": text, "title": f"title {number}"} for number, text in enumerate(self.texts)]
        wanted = self.reconstruction()
        self.assert_index("colbert", self.path, range(80), wanted, payloads=payloads, payloads_file=str(path))
        path.write_text("0\ttext\n2\ttext\n")
        self.assert_refused("colbert", self.path, "line 2 must begin with the number 1", payloads=str(path))
        path.write_text("0\ttext\n1\ttext\n")
        self.assert_refused("colbert", self.path, "has 2 texts, but there are 80 passages", payloads=str(path))


if __name__ == "__main__":
    main()
