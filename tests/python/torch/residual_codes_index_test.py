"""Tests maxsim_torch.residual_code_scores with codes from other libraries: a fast-plaid index, and colbert-ai's codec.
The scores must equal those of the vectors that each library decodes by itself.

python residual_codes_index_test.py LIBMAXSIM.so        with the packages of tests/python/plaid.txt
"""

import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import types
import unittest

# Uses one CPU thread, because more threads would busy-wait and slow other tests down. The other variables prevent
# downloads and warnings.
os.environ.update(CUDA_VISIBLE_DEVICES="", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", OMP_NUM_THREADS="1")
os.environ["MAXSIM_LIBRARY"] = str(pathlib.Path(sys.argv.pop(1)).resolve())
ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "client" / "torch"))

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.utils.cpp_extension  # noqa: E402

# Prevents colbert-ai from compiling its search code when it is loaded, which takes minutes. The test needs only the
# parts in Python, which pack and decode on the CPU.
torch.utils.cpp_extension.load = lambda name, **options: types.SimpleNamespace(**{name: None})

from colbert.indexing.codecs.residual import ResidualCodec  # noqa: E402
from colbert.infra import ColBERTConfig  # noqa: E402
from fast_plaid import search  # noqa: E402

from maxsim_torch import decompress_residual_codes, maxsim_scores_packed, residual_code_scores  # noqa: E402


def vectors(count, dim, generator):
    return torch.nn.functional.normalize(torch.randn(count, dim, generator=generator), dim=-1)


class IndexTest(unittest.TestCase):
    def setUp(self):
        self.random = torch.Generator().manual_seed(1)
        self.lengths = torch.randint(1, 40, (60,), generator=self.random)
        self.offsets = torch.nn.functional.pad(self.lengths.cumsum(0), (1, 0))
        self.queries = torch.stack([vectors(32, 64, self.random) for _ in range(3)])

    def expect(self, decoded, codes, tolerance):
        """Checks that the codes decode to `decoded` [tokens, dim], and that scores of the codes equal scores of
        `decoded`."""
        self.assertLess((decompress_residual_codes(*codes) - decoded).abs().max().item(), tolerance)
        wanted = maxsim_scores_packed(self.queries, decoded, self.offsets)
        scores = residual_code_scores(self.queries, *codes, document_offsets=self.offsets)
        # A score sums 32 query tokens of norm 1, so their errors add up.
        torch.testing.assert_close(scores, wanted, rtol=0, atol=32 * tolerance)
        self.assertEqual(scores.argmax(1).tolist(), wanted.argmax(1).tolist())

    def rows(self, folder, name):
        """Returns the codes or residuals of all chunks. Newer versions store them in one file."""
        merged = folder / f"merged_{name}.npy"
        if merged.exists():
            return torch.from_numpy(np.load(merged)[: self.offsets[-1]])
        chunks = json.loads((folder / "metadata.json").read_text())["num_chunks"]
        return torch.from_numpy(np.concatenate([np.load(folder / f"{idx}.{name}.npy") for idx in range(chunks)]))

    def test_an_index_of_fast_plaid_is_scored(self):
        for nbits in (1, 2, 4, 8):
            with self.subTest(nbits=nbits), tempfile.TemporaryDirectory() as name:
                folder = pathlib.Path(name) / "index"
                index = search.FastPlaid(index=str(folder), device="cpu")
                documents = [vectors(int(length), 64, self.random) for length in self.lengths]
                with contextlib.redirect_stdout(io.StringIO()):
                    index.create(documents, nbits=nbits, kmeans_niters=2, batch_size=25, start_from_scratch=10)
                decoded = torch.cat([document.float() for document in index.get_embeddings(list(range(60)))])
                tables = [torch.from_numpy(np.load(folder / f"{t}.npy")) for t in ("centroids", "bucket_weights")]
                codes = (
                    self.rows(folder, "codes"),
                    self.rows(folder, "residuals"),
                    *(t.half().float() for t in tables),
                )
                self.expect(decoded, codes, 1e-3)  # fast-plaid decodes in halves

    def test_codes_of_colbert_are_scored(self):
        for nbits in (1, 2, 4, 8):
            with self.subTest(nbits=nbits):
                rows = vectors(int(self.offsets[-1]), 64, self.random)
                centroids = rows[:: len(rows) // 20].contiguous()
                residuals = rows - centroids[(rows @ centroids.T).argmax(1)]
                edges = torch.arange(2**nbits) / 2**nbits
                cutoffs, weights = residuals.quantile(edges[1:]), residuals.quantile(edges + 0.5 / 2**nbits)
                config = ColBERTConfig(nbits=nbits, dim=64, gpus=0)
                codec = ResidualCodec(config, centroids, residuals.abs().mean(), cutoffs, weights)
                packed = codec.compress(rows)
                codes = (packed.codes, packed.residuals, codec.centroids, codec.bucket_weights)
                self.expect(codec.decompress(packed).float(), codes, 1e-5)


if __name__ == "__main__":
    unittest.main(verbosity=2)
