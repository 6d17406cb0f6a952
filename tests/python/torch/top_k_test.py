"""Compares maxsim_top_k with a sort of all scores: for any block size, packed and padded, in files and on a GPU.

python top_k_test.py LIBMAXSIM.so        with torch installed
"""

import itertools
import pathlib
import tempfile
import unittest
import warnings

import numpy as np
from torch_fixture import CUDA, DEVICES, TorchTest, run_tests

import torch

from maxsim_torch import maxsim_scores, maxsim_top_k, reference

BLOCKS = (None, 1, 2, 7, 30, 31, 1000)


class TopKTest(TorchTest):
    def setUp(self):
        super().setUp()
        # Small integers, so that many documents have equal scores.
        self.queries = self.values(5, 9, 16, ties=True)
        self.documents = self.values(31, 12, 16, ties=True)
        self.lengths = torch.randint(0, 13, (31,), generator=self.random)
        self.lengths[4] = 0

    def packed(self):
        offsets = torch.zeros(32, dtype=torch.int64)
        offsets[1:] = self.lengths.cumsum(0)
        return torch.cat([rows[:length] for rows, length in zip(self.documents, self.lengths)]), offsets

    def places(self):
        """Where queries and documents may be."""
        return [("cpu", "cpu"), ("cuda", "cuda"), ("cuda", "cpu")] if CUDA else [("cpu", "cpu")]

    def check(self, result, expected):
        self.assertEqual((result.scores.dtype, result.indices.dtype), (torch.float32, torch.int64))
        self.check_same_bits([result.scores.cpu().double(), result.indices.cpu()], expected)

    def test_any_block_size_gives_the_sorted_scores_with_ties_by_index(self):
        for k, (at, documents_at) in itertools.product((1, 2, 10, 31), self.places()):
            expected = reference.maxsim_top_k(
                self.queries.double(), self.documents.double(), k, document_lengths=self.lengths
            )
            self.assertTrue(k < 31 or (expected[0][:, 1:] == expected[0][:, :-1]).any())
            for block in BLOCKS:
                with self.subTest(k=k, block=block, at=at, documents_at=documents_at):
                    documents, lengths = self.documents.to(documents_at), self.lengths.to(documents_at)
                    result = maxsim_top_k(
                        self.queries.to(at), documents, k, document_lengths=lengths, block_documents=block
                    )
                    self.check(result, expected)

    def test_packed_documents_are_those_without_padding(self):
        rows, offsets = self.packed()
        mask = torch.rand(self.documents.shape[:2], generator=self.random) < 0.7
        flat = torch.cat([row[:length] for row, length in zip(mask, self.lengths)])
        plain = (self.queries.double(), self.documents.double(), 8)
        expected = reference.maxsim_top_k(*plain, document_lengths=self.lengths, document_mask=mask)
        for block, (at, documents_at) in itertools.product(BLOCKS, self.places()):
            result = maxsim_top_k(
                self.queries.to(at),
                rows.to(documents_at),
                8,
                document_offsets=offsets.to(documents_at),
                document_mask=flat.to(documents_at),
                block_documents=block,
            )
            self.check(result, expected)

    def test_scores_of_random_vectors_are_the_same_bits_for_any_block(self):
        queries, documents = self.values(3, 33, 40), self.values(50, 21, 40)
        weights = torch.rand((3, 33), generator=self.random)
        for dtype, (at, documents_at) in itertools.product((torch.float32, torch.bfloat16), self.places()):
            given = queries.to(at, dtype), documents.to(documents_at, dtype)
            more = {"weights": weights.to(at), "query_lengths": torch.tensor([33, 1, 9], device=at)}
            scores = maxsim_scores(given[0], given[1].to(at), **more)
            values, indices = scores.sort(dim=1, descending=True, stable=True)
            for block in BLOCKS:
                result = maxsim_top_k(*given, 20, block_documents=block, **more)
                self.check_same_bits(list(result), [values[:, :20], indices[:, :20]])

    def test_scales_are_cut_with_their_documents(self):
        queries = torch.randint(-127, 128, (3, 5, 16), generator=self.random, dtype=torch.int8)
        documents = torch.randint(-127, 128, (31, 12, 16), generator=self.random, dtype=torch.int8)
        for shape, (at, documents_at) in itertools.product(((31,), (31, 12), ()), self.places()):
            scales = torch.rand(shape, generator=self.random)
            query_scales = torch.full((3,), 0.5, device=at)
            whole = scales.expand(31) if scales.dim() == 0 else scales
            scores = maxsim_scores(
                queries.to(at), documents.to(at), query_scales=query_scales, document_scales=whole.to(at)
            )
            values, indices = scores.sort(dim=1, descending=True, stable=True)
            result = maxsim_top_k(
                queries.to(at),
                documents.to(documents_at),
                6,
                query_scales=query_scales,
                document_scales=scales.to(documents_at),
                block_documents=4,
            )
            self.check_same_bits(list(result), [values[:, :6], indices[:, :6]])

    def test_packed_scales_of_documents_and_of_tokens(self):
        rows = torch.randint(-127, 128, (31, 16), generator=self.random, dtype=torch.int8)
        offsets = torch.arange(0, 32, 1)[:-1]  # 30 documents of one token each; the last of the 31 rows belongs to none
        query, scale = rows[:4], torch.tensor(0.25)
        of_documents = torch.rand(30, generator=self.random)
        of_tokens = torch.cat([of_documents, torch.ones(1)])
        for scales, block in itertools.product((of_documents, of_tokens, of_tokens[:, None]), (None, 1, 7)):
            # Scales per document and scales per token are rounded at different places, even if each document has one
            # token. So the expected scores use the same kind of scales.
            one_each = of_documents if scales is of_documents else of_documents[:, None]
            scores = maxsim_scores(query, rows[:30, None], query_scales=scale, document_scales=one_each)
            values, indices = scores.sort(descending=True, stable=True)
            result = maxsim_top_k(
                query,
                rows,
                9,
                document_offsets=offsets,
                document_mask=torch.ones(31, dtype=torch.bool),
                query_scales=scale,
                document_scales=scales,
                block_documents=block,
            )
            self.check_same_bits(list(result), [values[:9], indices[:9]])

    def test_one_scale_is_of_all_packed_documents_also_where_each_has_one_token(self):
        rows = torch.randint(-127, 128, (31, 16), generator=self.random, dtype=torch.int8)
        offsets, half = torch.arange(32), torch.tensor(0.5)
        scores = maxsim_scores(rows[:4], rows[:, None], query_scales=half, document_scales=half)
        values, indices = scores.sort(descending=True, stable=True)
        for block, (at, documents_at) in itertools.product((None, 1, 7, 31), self.places()):
            result = maxsim_top_k(
                rows[:4].to(at),
                rows.to(documents_at),
                9,
                document_offsets=offsets.to(documents_at),
                document_scales=half.to(documents_at),
                query_scales=half.to(at),
                block_documents=block,
            )
            self.check_same_bits([result.scores.cpu(), result.indices.cpu()], [values[:9], indices[:9]])
        message = r"document_scales have shape \(31,\), but there are as many documents as tokens"
        more = {"document_offsets": offsets, "query_scales": half, "document_scales": half.expand(31)}
        self.refuse(ValueError, message, maxsim_top_k, rows[:4], rows, 9, **more)

    def test_documents_may_lie_in_a_file(self):
        expected = reference.maxsim_top_k(self.queries.double(), self.documents.double(), 5)
        with tempfile.TemporaryDirectory(prefix="maxsim-top-k-") as folder:
            path = pathlib.Path(folder) / "documents.npy"
            np.save(path, self.documents.numpy())
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch warns that the mapped array cannot be written to
                documents = torch.from_numpy(np.load(path, mmap_mode="r"))
            for device in DEVICES:
                self.check(maxsim_top_k(self.queries.to(device), documents, 5, block_documents=4), expected)

    def test_one_query_has_no_first_dimension(self):
        whole = maxsim_top_k(self.queries, self.documents, 3)
        one = maxsim_top_k(self.queries[1], self.documents, 3)
        self.check_same_bits(list(one), [whole.scores[1], whole.indices[1]])

    def test_twenty_runs_have_the_same_bits(self):
        for at, documents_at in self.places():
            queries, documents = self.values(3, 40, 64).to(at), self.values(100, 50, 64).to(documents_at)
            result = maxsim_top_k(queries, documents, 10, block_documents=3)
            for _ in range(20):
                again = maxsim_top_k(queries, documents, 10, block_documents=3)
                self.check_same_bits(list(again), list(result))

    def test_no_gradient_is_kept(self):
        result = maxsim_top_k(self.queries.requires_grad_(), self.documents, 3)
        self.assertFalse(result.scores.requires_grad)


@unittest.skipUnless(CUDA, "needs a GPU, and CUDA in the library")
class StreamedTest(TorchTest):
    def test_documents_in_pageable_memory_do_not_depend_on_the_default_device(self):
        queries, documents = self.values(3, 9, 16).cuda(), self.values(31, 12, 16)
        expected = maxsim_top_k(queries, documents, 5, block_documents=4)
        with torch.device("cuda"):
            self.check_same_bits(list(maxsim_top_k(queries, documents, 5, block_documents=4)), list(expected))

    def test_many_blocks_from_any_memory_while_other_work_is_queued(self):
        queries = self.values(4, 32, 128).half().cuda()
        documents = self.values(4000, 40, 128).half()
        scores = maxsim_scores(queries, documents.cuda())
        values, indices = scores.sort(dim=1, descending=True, stable=True)
        busy = torch.randn(4096, 4096, device="cuda")
        for host in (documents, documents.pin_memory()):
            for _ in range(3):
                busy = busy @ busy * 1e-3
                result = maxsim_top_k(queries, host, 100, block_documents=64)
                self.check_same_bits(list(result), [values[:, :100], indices[:, :100]])

    def test_memory_is_that_of_two_blocks(self):
        queries = self.values(4, 32, 128).half().cuda()
        documents = torch.zeros(8192, 128, 128, dtype=torch.float16)
        block_bytes = 256 * 128 * 128 * 2
        maxsim_top_k(queries, documents[:512], 10, block_documents=256)
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        maxsim_top_k(queries, documents, 10, block_documents=256)
        self.assertLess(torch.cuda.max_memory_allocated() - before, 3 * block_bytes)


class ErrorsTest(TorchTest):
    def test_an_error_names_the_argument(self):
        queries, documents = self.values(2, 3, 8), self.values(4, 5, 8)
        offsets = torch.tensor([0, 2, 5])

        def refuse(pattern, *arguments, **more):
            self.refuse(ValueError, pattern, maxsim_top_k, *arguments, **more)

        self.refuse(TypeError, "documents is of type list", maxsim_top_k, queries, [[1.0]], 1)
        self.refuse(TypeError, "k is of type float; must be an integer", maxsim_top_k, queries, documents, 2.0)
        self.assertEqual(maxsim_top_k(queries, documents, np.int64(2)).scores.shape[-1], 2)
        refuse("k is 0; must be 1 to 4", queries, documents, 0)
        wrong = {"document_offsets": torch.zeros(1, 2)}
        refuse(r"document_offsets have shape \(1, 2\)", queries, documents[0], 1, **wrong)
        wrong = {"document_lengths": torch.tensor([1, 1, 1, 9])}
        refuse(r"document_lengths\[3\] is 9", queries, documents, 1, block_documents=1, **wrong)
        refuse("k is 5; must be 1 to 4", queries, documents, 5)
        refuse("block_documents is 0; must be 1 or more", queries, documents, 1, block_documents=0)
        refuse(r"documents have shape \(5, 8\); must be \[Nd, Ld, d\]", queries, documents[0], 1)
        refuse(r"\(4, 5, 8\); must be \[tokens, d\]", queries, documents, 1, document_offsets=offsets)
        refuse(r"document_offsets\[2\] is 5; must be 0 to 4", queries, documents[0, :4], 1, document_offsets=offsets)
        wrong = {"document_offsets": torch.tensor([0, 3, 2])}
        refuse(r"document_offsets\[2\] is 2, but the one before is 3", queries, documents[0], 1, **wrong)
        refuse(r"document_lengths have shape \(3,\); must be \(4,\)", queries, documents, 1,
               document_lengths=torch.ones(3, dtype=torch.int64))  # fmt: skip
        refuse("packed documents take", queries, documents[0], 1, document_offsets=offsets, document_lengths=offsets)
        refuse(r"queries have shape \(8,\)", queries[0, 0], documents, 1)
        refuse("documents are on meta and queries on cpu", queries, documents.to("meta"), 1)
        refuse("with 7 columns", queries[..., :7], documents, 1)


if __name__ == "__main__":
    run_tests()
