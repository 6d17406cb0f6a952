"""Compares maxsim_scores and maxsim_scores_packed with plain PyTorch in float64, on the CPU and on a GPU: scores,
matches and gradients.

python scores_test.py LIBMAXSIM.so        with torch installed
"""

import itertools
import unittest

from scores_case import ROUNDING, SEED, Case, SeededTest, cases, expect_nothing_of_what_does_not_count
from torch_fixture import CUDA, run_tests

import torch

from maxsim_torch import maxsim_scores, maxsim_scores_packed, reference


class ScoresTest(SeededTest):
    def test_scores_matches_and_gradients_are_those_of_float64(self):
        for name, case in cases():
            with self.subTest(name):
                scores, argmax, gradients = case.run(maxsim_scores)
                expected, expected_argmax, expected_gradients = case.run(reference.maxsim_scores, torch.float64)
                self.assertEqual(scores.dtype, torch.float32)
                self.assertEqual(argmax.dtype, torch.int32)
                torch.testing.assert_close(scores.double(), expected, rtol=1e-5, atol=1e-3)
                self.assertTrue(torch.equal(argmax, expected_argmax))
                for of, gradient in gradients.items():
                    wanted = expected_gradients[of]
                    self.assertEqual(gradient.dtype, torch.float32 if of == "weights" else case.queries.dtype)
                    allowed = 1e-5 if of != "weights" else 1e-4
                    rounding = 0 if of == "weights" else ROUNDING[gradient.dtype]
                    self.assertLessEqual(
                        ((gradient.double() - wanted).abs() - rounding * wanted.abs()).max().item(), allowed, of
                    )

    def test_one_query_is_a_batch_of_one_without_its_dimension(self):
        case = Case(torch.float32)
        query, documents = case.queries[0], case.documents
        self.assertTrue(torch.equal(maxsim_scores(query, documents), maxsim_scores(query[None], documents)[0]))
        named = torch.tensor([2, 0])
        self.assertTrue(
            torch.equal(maxsim_scores(query, documents, candidates=named), maxsim_scores(query, documents)[named])
        )
        lists = maxsim_scores(query, documents[None], query_lengths=torch.tensor(7))
        self.assertTrue(torch.equal(lists, maxsim_scores(query[:7], documents)))
        self.assertEqual(maxsim_scores(query, documents[:1], paired=True).shape, ())

    def test_what_does_not_count_does_not_matter(self):
        expect_nothing_of_what_does_not_count(self, "cpu")

    def test_twenty_runs_have_the_same_bits(self):
        case = Case(torch.bfloat16, "candidates", ragged=True, masked=True, weighted=True)
        scores, argmax, gradients = case.run(maxsim_scores)
        for _ in range(20):
            again, argmax_again, gradients_again = case.run(maxsim_scores)
            self.assertTrue(torch.equal(scores, again) and torch.equal(argmax, argmax_again))
            for name, gradient in gradients.items():
                self.assertTrue(torch.equal(gradient, gradients_again[name]))

    def test_strided_and_expanded_tensors_are_taken(self):
        case = Case(torch.float32)
        wanted = maxsim_scores(case.queries, case.documents)
        strided = case.queries.transpose(0, 1).contiguous().transpose(0, 1)
        self.assertTrue(torch.equal(maxsim_scores(strided, case.documents), wanted))
        strided.requires_grad_()
        maxsim_scores(strided, case.documents).sum().backward()  # its gradient is an expanded tensor
        self.assertEqual(strided.grad.shape, case.queries.shape)

    def test_an_empty_document_has_its_score_and_no_gradient(self):
        queries = torch.randn(2, 3, 8, requires_grad=True)
        documents = torch.randn(2, 4, 8, requires_grad=True)
        scores, argmax = maxsim_scores(queries, documents, document_lengths=torch.tensor([4, 0]), return_argmax=True)
        self.assertTrue(torch.isneginf(scores[:, 1]).all())
        self.assertTrue((argmax[:, 1] == -1).all())
        scores.softmax(1).square().sum().backward()
        self.assertTrue((documents.grad[1] == 0).all() and queries.grad.isfinite().all())

    def test_no_documents_and_no_queries_give_empty_scores(self):
        self.assertEqual(maxsim_scores(torch.randn(2, 3, 8), torch.randn(0, 4, 8)).shape, (2, 0))
        self.assertEqual(maxsim_scores(torch.randn(0, 3, 8), torch.randn(5, 4, 8)).shape, (0, 5))


class PackedTest(SeededTest):
    def setUp(self):
        super().setUp()
        random = torch.Generator().manual_seed(SEED)
        self.query_lengths = torch.tensor([3, 0, 33, 8])
        self.document_lengths = torch.tensor([1, 50, 0, 17, 9])
        self.queries = torch.randn(4, 33, 24, generator=random)
        self.documents = torch.randn(5, 50, 24, generator=random)
        self.weights = torch.rand(4, 33, generator=random)

    @staticmethod
    def pack(rows, lengths):
        offsets = torch.zeros(len(lengths) + 1, dtype=torch.int32)
        offsets[1:] = lengths.cumsum(0)
        return torch.cat([row[:length] for row, length in zip(rows, lengths)]), offsets

    def test_packed_is_padded_bit_for_bit(self):
        queries, query_offsets = self.pack(self.queries, self.query_lengths)
        documents, document_offsets = self.pack(self.documents, self.document_lengths)
        weights, _ = self.pack(self.weights, self.query_lengths)
        candidates = torch.tensor([[0, 0], [1, 2], [4, 3], [2, 1]])
        for more in ({}, {"candidates": candidates}):
            results = []
            for packed in (False, True):
                tensors = [self.queries, self.documents, self.weights] if not packed else [queries, documents, weights]
                tensors = [tensor.clone().requires_grad_() for tensor in tensors]
                if packed:
                    scores, argmax = maxsim_scores_packed(
                        *tensors[:2],
                        document_offsets,
                        query_offsets=query_offsets,
                        max_query_tokens=33,
                        weights=tensors[2],
                        return_argmax=True,
                        **more,
                    )
                else:
                    scores, argmax = maxsim_scores(
                        *tensors[:2],
                        query_lengths=self.query_lengths,
                        document_lengths=self.document_lengths,
                        weights=tensors[2],
                        return_argmax=True,
                        **more,
                    )
                torch.where(scores.isfinite(), scores, 0).sum().backward()
                gradients = [tensor.grad for tensor in tensors]
                if not packed:
                    pairs = zip(gradients, (self.query_lengths, self.document_lengths, self.query_lengths))
                    gradients = [self.pack(gradient, lengths)[0] for gradient, lengths in pairs]
                results.append((scores, argmax, *gradients))
            for padded, packed in zip(*results):
                self.assertTrue(torch.equal(padded, packed))

    def test_documents_may_lie_anywhere_and_overlap(self):
        rows = torch.randn(40, 24, requires_grad=True)
        offsets, lengths = torch.tensor([30, 5, 8, 39]), torch.tensor([10, 12, 3, 1])
        query = self.queries[2]
        scores = maxsim_scores_packed(query, rows, offsets, document_lengths=lengths)
        scores.sum().backward()
        plain = rows.detach().clone().requires_grad_()
        pieces = [plain[begin : begin + count] for begin, count in zip(offsets, lengths)]
        expected = torch.stack([(query @ piece.T).max(1).values.sum() for piece in pieces])
        expected.sum().backward()
        torch.testing.assert_close(scores, expected)
        torch.testing.assert_close(rows.grad, plain.grad)

    def test_padded_queries_meet_packed_documents(self):
        documents, offsets = self.pack(self.documents, self.document_lengths)
        wanted = maxsim_scores(self.queries, self.documents, document_lengths=self.document_lengths)
        self.assertTrue(torch.equal(maxsim_scores_packed(self.queries, documents, offsets), wanted))
        self.assertTrue(torch.equal(maxsim_scores_packed(self.queries[0], documents, offsets), wanted[0]))


class Int8Test(SeededTest):
    def test_scores_are_those_of_the_scaled_values(self):
        random = torch.Generator().manual_seed(SEED)
        queries = torch.randint(-127, 128, (3, 9, 32), generator=random, dtype=torch.int8)
        documents = torch.randint(-127, 128, (4, 20, 32), generator=random, dtype=torch.int8)
        for query_shape, document_shape in itertools.product(((3,), (3, 9)), ((4,), (4, 20))):
            query_scales = torch.rand(query_shape, generator=random) / 100
            document_scales = torch.rand(document_shape, generator=random) / 100
            scores, argmax = maxsim_scores(
                queries, documents, query_scales=query_scales, document_scales=document_scales, return_argmax=True
            )
            plain = [
                rows.double() * scales.double().reshape(*scales.shape, *(1,) * (3 - scales.dim()))
                for rows, scales in ((queries, query_scales), (documents, document_scales))
            ]
            expected, expected_argmax = reference.maxsim_scores(*plain, return_argmax=True)
            torch.testing.assert_close(scores.double(), expected, rtol=1e-5, atol=1e-5)
            self.assertTrue(torch.equal(argmax, expected_argmax))


    def test_packed_scales_are_of_documents_or_of_tokens(self):
        rows = torch.randint(-127, 128, (6, 16), dtype=torch.int8)
        query, query_scales = rows[:2], torch.tensor(0.5)
        scales = torch.rand(6)

        def scores(offsets, document_scales):
            return maxsim_scores_packed(
                query, rows, torch.tensor(offsets), query_scales=query_scales, document_scales=document_scales
            )

        def expected(offsets, token_scales):
            plain = rows.float() * token_scales.unsqueeze(1)
            return maxsim_scores_packed(query.float() * 0.5, plain, torch.tensor(offsets))

        torch.testing.assert_close(scores([0, 2, 6], scales), expected([0, 2, 6], scales))
        torch.testing.assert_close(scores([0, 2, 6], scales[:, None]), expected([0, 2, 6], scales))
        of_documents = torch.repeat_interleave(scales[:2], torch.tensor([2, 4]))
        torch.testing.assert_close(scores([0, 2, 6], scales[:2]), expected([0, 2, 6], of_documents))
        # With as many documents as tokens, it is unclear what a vector of scales is for. So the call must be refused.
        offsets = [0, 2, 2, 3, 4, 5, 6]
        with self.assertRaisesRegex(ValueError, r"there are 6 sequences and 6 tokens; make them \[tokens, 1\]"):
            scores(offsets, scales)
        torch.testing.assert_close(scores(offsets, scales[:, None]), expected(offsets, scales))

    def test_scales_of_one_token_each_are_told_by_their_shape(self):
        rows = torch.randint(-127, 128, (3, 1, 16), dtype=torch.int8)
        scales = torch.rand(3)
        of_sequences, of_tokens = (
            maxsim_scores(rows, rows, query_scales=shaped, document_scales=shaped)
            for shaped in (scales, scales[:, None])
        )
        torch.testing.assert_close(of_sequences, of_tokens)


@unittest.skipUnless(CUDA, "needs a GPU, and CUDA in the library")
class CudaTest(SeededTest):
    def test_scores_matches_and_gradients_are_those_of_float64(self):
        for name, case in cases():
            with self.subTest(name):
                scores, argmax, gradients = case.run(maxsim_scores, device="cuda")
                expected, expected_argmax, expected_gradients = case.run(reference.maxsim_scores, torch.float64)
                torch.testing.assert_close(scores.cpu().double(), expected, rtol=1e-5, atol=1e-3)
                self.assertTrue(torch.equal(argmax.cpu(), expected_argmax))
                for of, gradient in gradients.items():
                    wanted = expected_gradients[of]
                    allowed = 1e-5 if of != "weights" else 1e-4
                    rounding = 0 if of == "weights" else ROUNDING[gradient.dtype]
                    difference = (gradient.cpu().double() - wanted).abs() - rounding * wanted.abs()
                    self.assertLessEqual(difference.max().item(), allowed, of)

    def test_twenty_runs_have_the_same_bits(self):
        case = Case(torch.bfloat16, "candidates", ragged=True, masked=True, weighted=True)
        scores, argmax, gradients = case.run(maxsim_scores, device="cuda")
        for _ in range(20):
            again, argmax_again, gradients_again = case.run(maxsim_scores, device="cuda")
            self.assertTrue(torch.equal(scores, again) and torch.equal(argmax, argmax_again))
            for name, gradient in gradients.items():
                self.assertTrue(torch.equal(gradient, gradients_again[name]))

    def test_a_captured_step_gives_the_same_bits(self):
        queries = torch.randn(4, 40, 64, device="cuda", dtype=torch.float16, requires_grad=True)
        documents = torch.randn(6, 70, 64, device="cuda", dtype=torch.float16, requires_grad=True)

        def step():
            scores = maxsim_scores(queries, documents)
            return scores, *torch.autograd.grad(scores.diagonal().sum(), (queries, documents))

        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            expected = [tensor.clone() for tensor in step()]
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = step()
        for _ in range(3):
            graph.replay()
            torch.cuda.synchronize()
            for tensor, wanted in zip(captured, expected):
                self.assertTrue(torch.equal(tensor, wanted))

    def test_compiles_into_one_graph(self):
        def loss(queries, documents):
            scores = maxsim_scores(queries, documents)
            return torch.nn.functional.cross_entropy(scores, torch.arange(queries.shape[0], device=queries.device))

        tensors = [torch.randn(4, 12, 16, device="cuda", requires_grad=True) for _ in range(2)]
        results = []
        for function in (loss, torch.compile(loss, backend="aot_eager", fullgraph=True)):
            results.append(torch.autograd.grad(function(*tensors), tensors))
        for eager, traced in zip(*results):
            torch.testing.assert_close(eager, traced)

    def test_what_does_not_count_does_not_matter(self):
        expect_nothing_of_what_does_not_count(self, "cuda")

    def test_tensors_of_two_devices_are_refused(self):
        with self.assertRaisesRegex(ValueError, "a tensor of the call is on cpu"):
            maxsim_scores(torch.randn(1, 2, 8, device="cuda"), torch.randn(1, 2, 8))


if __name__ == "__main__":
    run_tests()
