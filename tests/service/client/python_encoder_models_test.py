"""Tests that maxsim-encoder, with a MultiVectorEncoder model, returns the vectors that sentence-transformers computes.

python python_encoder_models_test.py      needs sentence-transformers 6.0 or later; downloads nothing
"""

import json
import os
import pathlib
import string
import subprocess
import sys
import tempfile
import unittest

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import numpy as np
import torch
import transformers
from sentence_transformers import MultiVectorEncoder
from sentence_transformers.base.modules.dense import Dense
from sentence_transformers.base.modules.transformer import Transformer
from sentence_transformers.multi_vector_encoder.modules.multi_vector_mask import MultiVectorMask

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from encoder_fixture import ROOT, Program, call, error_of, read_safetensors, split_rows  # noqa: E402

WORDS = "what is a volcano the mountain opens and rocks flow down query passage".split()
TEXTS = ["what is a volcano?", "the mountain opens, and rocks flow down.", "rocks " * 40]
DIM = 8
# The model with expanded queries, and the server flags that its tests have in common.
EXPANDED = ("expanded", "--name", "other")


def make_backbone(folder):
    """Saves a small BERT with random weights and a word piece tokenizer, in Transformers' format."""
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *string.punctuation, *string.ascii_lowercase, *WORDS]
    vocabulary += [f"##{letter}" for letter in string.ascii_lowercase]
    (folder / "vocab.txt").write_text("\n".join(dict.fromkeys(vocabulary)) + "\n")
    tokenizer = transformers.BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=64)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(1)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    config = transformers.BertConfig(vocab_size=len(tokenizer), max_position_embeddings=64, **sizes)
    transformers.BertModel(config).save_pretrained(folder)


def make_checkpoint(backbone, folder, prompts=None, **lengths):
    """Saves a late-interaction checkpoint that uses the backbone."""
    dense = Dense(32, DIM, bias=False, activation_function=torch.nn.Identity(), module_input_name="token_embeddings")
    modules = [Transformer(str(backbone), **lengths), dense, MultiVectorMask(skiplist_words=[".", ",", "?"])]
    MultiVectorEncoder(modules=modules, device="cpu", prompts=prompts).save_pretrained(str(folder))


class SentenceTransformersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="maxsim-encoder-")
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        cls.ports = {}
        (cls.folder / "backbone").mkdir()
        make_backbone(cls.folder / "backbone")
        prompts = {"query": "query: ", "document": "passage: "}
        make_checkpoint(cls.folder / "backbone", cls.folder / "plain", prompts, document_length=20)
        expansion = {"strategy": "fixed", "length": 16, "attend": False}
        make_checkpoint(cls.folder / "backbone", cls.folder / "expanded", query_expansion=expansion)

    def serve(self, name, *flags):
        """Returns the port of a server with these flags. Tests with the same flags use the same server, because
        starting one takes ten seconds."""
        if (name, *flags) not in self.ports:
            self.ports[(name, *flags)] = self.serve_another(name, *flags)
        return self.ports[(name, *flags)]

    def serve_another(self, name, *flags):
        program = Program("--model", self.folder / name, "--device", "cpu", *flags)
        self.addClassCleanup(program.stop)
        return program.wait_until_ready().port

    def encode(self, port, texts, kind, **more):
        status, _, data = call(port, "POST", "/encode", {"texts": texts, "kind": kind, **more})
        self.assertEqual(status, 200, data)
        return split_rows(read_safetensors(data)[0])

    def expect(self, got, wanted):
        self.assertEqual([one.shape for one in got], [one.shape for one in wanted])
        for one, other in zip(got, wanted):
            np.testing.assert_allclose(one, other, atol=1e-5)

    def test_the_answers_are_the_librarys(self):
        for name, *flags in (("plain",), EXPANDED):
            model = MultiVectorEncoder(str(self.folder / name), device="cpu")
            port = self.serve(name, *flags)
            for kind, encode in (("query", model.encode_query), ("document", model.encode_document)):
                self.expect(self.encode(port, TEXTS, kind), encode(TEXTS, convert_to_numpy=True))

    def test_info_has_the_settings_of_the_checkpoint(self):
        plain = json.loads(call(self.serve("plain"), "GET", "/info")[2])
        fingerprint = plain.pop("fingerprint")
        self.assertEqual(
            plain,
            {
                "model": "plain",
                "dim": DIM,
                "query_prefix": "query: ",
                "document_prefix": "passage: ",
                "query_length": 64,
                "document_length": 20,
                "query_expansion": False,
            },
        )
        expanded = json.loads(call(self.serve(*EXPANDED), "GET", "/info")[2])
        self.assertEqual((expanded["model"], expanded["query_length"]), ("other", 16))
        self.assertTrue(expanded["query_expansion"])
        self.assertNotEqual(expanded["fingerprint"], fingerprint)
        again = json.loads(call(self.serve_another("plain"), "GET", "/info")[2])
        self.assertEqual(again["fingerprint"], fingerprint)

    def test_max_tokens_cuts_and_truncate_false_refuses(self):
        port = self.serve("plain", "--max-tokens", "12")
        info = json.loads(call(port, "GET", "/info")[2])
        self.assertEqual((info["query_length"], info["document_length"]), (12, 12))
        long = TEXTS[2:]
        self.assertEqual([len(one) for one in self.encode(port, long, "document")], [12])
        self.assertEqual([len(one) for one in self.encode(port, long, "document", max_tokens=6)], [6])
        self.assertEqual([len(one) for one in self.encode(port, long, "query", max_tokens=7)], [7])
        status, code, message = error_of(port, "/embed_all", {"inputs": long, "truncate": False})
        self.assertEqual((status, code), (413, "text_too_long"))
        self.assertIn("more than the limit 12", message)

    def test_a_backbone_alone_is_refused(self):
        command = [sys.executable, "-m", "maxsim_encoder", "--model", self.folder / "backbone", "--print-info"]
        result = subprocess.run(command, cwd=ROOT / "client" / "python", capture_output=True, text=True)
        self.assertEqual(result.returncode, 2)
        self.assertIn("not a late-interaction checkpoint: its projection would be random", result.stderr)

    def test_expanded_queries_keep_their_length(self):
        port = self.serve(*EXPANDED)
        self.assertEqual([len(one) for one in self.encode(port, TEXTS[:2], "query", max_tokens=5)], [16, 16])

    def test_half_precision_serves_float32(self):
        model = MultiVectorEncoder(str(self.folder / "plain"), device="cpu")
        port = self.serve("plain", "--model-dtype", "bfloat16", "--threads", "1")
        got = self.encode(port, TEXTS[:2], "document")
        for one, other in zip(got, model.encode_document(TEXTS[:2], convert_to_numpy=True)):
            self.assertEqual(one.dtype, np.float32)
            np.testing.assert_allclose(one, other, atol=0.1)
            self.assertGreater(np.abs(one - other).max(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
