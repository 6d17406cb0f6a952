"""Tests maxsim_torch.compat.flash_maxsim: its names, and each function's scores against float64.

python flash_maxsim_compat_test.py LIBMAXSIM.so        with torch installed
"""

import importlib
import inspect
import itertools
import math
import unittest
from unittest import mock

import torch
from flash_maxsim_case import FLOATS, PARTS, SHAPES, CompatTest, flash, named, true_scores

# The arguments and defaults of flash-maxsim 0.3.0.
TRAIN = "Q, D, shared_docs=True, doc_lengths=None, query_lengths=None"
SIGNATURES = {
    "flash_maxsim": "Q, D, doc_lengths=None, query_chunk_size=128, splitk=False",
    "flash_maxsim_batched": "Q, D, doc_lengths=None, shared_docs=True, query_lengths=None, pad_lq=True, "
    "query_chunk_size=128",
    "flash_maxsim_train": "Q, D",
    "flash_maxsim_pairs": "q_embs, d_embs",
    "flash_maxsim_pairs_dense": "Q, D, q_lengths=None, doc_lengths=None",
    "flash_maxsim_persistent": "Q, D, doc_lengths=None, grid_factor=2",
    "flash_maxsim_batched_train": TRAIN,
    "flash_maxsim_int8_batched_train": TRAIN,
    "flash_maxsim_varlen": "Q_packed, D_packed, cu_seqlens_q, cu_seqlens_d, max_seqlen_q, max_seqlen_d",
    "pack_pairs": "q_embs, d_embs",
    "flash_maxsim_packed": "Q, D_packed, cu_seqlens_d, max_seqlen_d=None, query_chunk_size=128",
    "pack_docs": "d_embs",
    "flash_maxsim_rerank": "Q, D_packed, cu_seqlens_d, max_seqlen_d",
    "flash_maxsim_rerank_direct": "Q, batch_tensor, doc_offsets, doc_lengths, max_seqlen_d",
    "flash_maxsim_rerank_padded": "queries, documents, query_lengths=None, doc_lengths=None",
    "flash_maxsim_int8": "Q, D_uint8, scales, mins, doc_lengths=None, query_chunk_size=128",
    "quantize_int8": "D",
    "dequantize_int8": "D_uint8, scales, mins",
    "flash_maxsim_int8x8": "Q, D_int8, d_scales, Q_int8=None, q_scales=None, doc_lengths=None, query_chunk_size=128",
    "quantize_int8_symmetric": "D",
    "quantize_query_int8": "Q",
    "flash_maxsim_int8_symmetric": "Q, D_int8, scales, doc_lengths=None, query_chunk_size=128",
    "flash_maxsim_topk": "Q, D, k, doc_lengths=None, n_candidates=None, D_int8=None, scales=None, mins=None",
    "flash_maxsim_qreuse": "Q, D, doc_lengths=None",
    "flash_maxsim_splitk": "Q, D, doc_lengths=None, num_splits=4",
    "warmup": "shapes=None, train_shapes=None, device=None, verbose=False",
    "maxsim_naive": "Q, D, doc_lengths=None",
    "maxsim_naive_fp32": "Q, D, doc_lengths=None",
    "maxsim_at_operator": "Q, D",
    "maxsim_bmm": "Q, D",
    "maxsim_chunked": "Q, D, chunk_size=1000, fp32_reduce=False",
    "maxsim_naive_batched": "Q, D, doc_lengths=None, shared_docs=True",
    "maxsim_naive_int8": "Q, D_int8, d_scales",
    "flash_chamfer": "P, Q, metric='l2_sq'",
    "flash_chamfer_train": "P, Q",
    "flash_chamfer_invgrid_train": "P, Q",
    "naive_chamfer": "P, Q, metric='l2_sq'",
    "naive_chamfer_one_direction": "P, Q, metric='l2_sq'",
    "flash_chamfer.flash_chamfer_one_direction": "P, Q, metric='l2_sq', save_argmin=False",
    "flash_chamfer_invgrid.build_chamfer_inverse_csr": "argmin, n_dest",
    "flash_maxsim_sparse.flash_maxsim_sparse": "Q, D, indices, doc_lengths=None",
    "flash_maxsim_sparse.maxsim_sparse_naive": "Q, D, indices",
    "flash_maxsim_sparse_dd.build_sparse_dd_tables": "argmax, Nq, B, Lq, Ld, shared_docs",
    "flash_maxsim_invgrid_proposal.build_inverse_csr": "argmax, Nq, B, Lq, Ld, shared_docs",
    "flash_maxsim_invgrid_proposal.flash_maxsim_invgrid_train": TRAIN,
    "flash_maxsim_fusedbwd_proposal.flash_maxsim_batched_train_fused": TRAIN,
    "flash_maxsim_persistbwd_proposal.flash_maxsim_batched_train_persistbwd": TRAIN,
    "flash_maxsim_sortbwd_proposal.flash_maxsim_batched_train_sortbwd": TRAIN,
    "flash_maxsim_torchbwd_proposal.torch_backward": "Q, D, argmax, grad_scores, shared_docs=True",
    "flash_maxsim_torchbwd_proposal.torch_backward_tiled": "Q, D, argmax, grad_scores, shared_docs=True, b_tile=128",
    "flash_maxsim_contrastive.colbert_contrastive_step": "Q, D, labels=None",
    "flash_maxsim_exp.flash_maxsim_heuristic": "Q, D, doc_lengths=None",
    "flash_maxsim_exp.flash_maxsim_streamed": "Q, D_cpu, chunk_size=10000, scorer=None",
}


class NamesTest(CompatTest):
    def test_functions_have_the_arguments_and_defaults_of_flash_maxsim(self):
        for path, wanted in SIGNATURES.items():
            parameters = inspect.signature(named(path)).parameters.values()
            got = ", ".join(str(each.replace(annotation=inspect.Parameter.empty)) for each in parameters)
            self.assertEqual(got, wanted, path)

    def test_names_of_the_package_are_functions_and_not_submodules(self):
        importlib.import_module(f"{flash.__name__}.flash_maxsim")
        for name in flash.__all__:
            one = getattr(flash, name)
            self.assertTrue(callable(one) or name.endswith(("_proposal", "_exp", "_sparse_dd", "_contrastive")), name)
        self.assertEqual(flash.__version__, "0.3.0")

    def test_submodules_are_there_without_an_import_of_their_own(self):
        for path in SIGNATURES:
            module, _, name = path.rpartition(".")
            if module and not callable(getattr(flash, module)):
                self.assertTrue(callable(getattr(getattr(flash, module), name)), path)
        sparse = importlib.import_module(f"{flash.__name__}.flash_maxsim_sparse")
        self.assertIs(flash.flash_maxsim_sparse, sparse)
        given = self.values(5, 8), self.values(3, 4, 8), self.integers(0, 4, 3, 2)
        expected = sparse.flash_maxsim_sparse(*given)
        self.assertTrue(torch.equal(flash.flash_maxsim_sparse(*given), expected))
        lengths = self.lengths(4, 3)
        more = {"doc_lengths": lengths}
        self.assertTrue(torch.equal(sparse(*given, **more), sparse.flash_maxsim_sparse(*given, **more)))

    def test_what_does_not_fit_is_an_assertion_error_and_a_value_error_that_names_it(self):
        queries, documents = self.values(2, 3, 8), self.values(2, 4, 8)
        codes, step = documents.char(), named("flash_maxsim_contrastive.colbert_contrastive_step")
        lengths, train = torch.tensor([1, 2]), flash.flash_maxsim_batched_train
        many = self.values(9, 4, 8)
        quantized, top_k = flash.quantize_int8(many), flash.flash_maxsim_topk
        wrong = (
            (r"Q has shape \(2, 3, 8\); must be \[Lq, d\]", lambda: flash.flash_maxsim(queries, documents)),
            (r"offsets \[B \+ 1\]", lambda: flash.flash_maxsim(queries[0], documents[0])),
            (r"8 columns, but D has 7", lambda: flash.flash_maxsim(queries[0], documents[..., :7])),
            (r"must be \[Nq, B, Ld, d\]", lambda: flash.flash_maxsim_batched(queries, documents, shared_docs=False)),
            (r"doc_lengths has shape \(3,\)", lambda: flash.flash_maxsim(queries[0], documents, torch.ones(3))),
            (r"doc_lengths is of type list", lambda: flash.flash_maxsim(queries[0], documents, [1, 2])),
            (r"shared_docs is a tensor", lambda: train(queries, documents, lengths)),
            (r"n_candidates is 1; must be k or", lambda: top_k(queries[0], many, 2, None, 1, *quantized)),
            (r"0 queries and 0 documents", lambda: flash.flash_maxsim_pairs([], [])),
            (r"d_embs is empty", lambda: flash.pack_docs([])),
            (r"Q_int8 or q_scales", lambda: flash.flash_maxsim_int8x8(None, codes, torch.ones(2, 4))),
            (r"scales has shape \(2, 3\)", lambda: flash.flash_maxsim_int8x8(queries[0], codes, torch.ones(2, 3))),
            (r"indices has 1 rows", lambda: flash.flash_maxsim_sparse(queries[0], documents, torch.zeros(1, 2).int())),
            (r"labels are torch.int32", lambda: step(queries, documents, torch.zeros(2).int())),
        )
        for text, call in wrong:
            with self.assertRaisesRegex(AssertionError, text) as caught:
                call()
            self.assertIsInstance(caught.exception, ValueError)


class ScoresTest(CompatTest):
    def test_lengths_have_any_type_of_numbers(self):
        query, documents = self.values(3, 8), self.values(2, 300, 8)
        wanted = flash.flash_maxsim(query, documents, torch.tensor([5, 255]))
        for lengths in (torch.tensor([5, 255], dtype=torch.uint8), torch.tensor([5.5, 255.0])):
            torch.testing.assert_close(flash.flash_maxsim(query, documents, lengths), wanted, rtol=0, atol=0)

    def test_one_query_over_documents(self):
        for name, queries, documents in self.cases():
            for lengths in (None, self.lengths(documents.shape[1], 7)):
                wanted = true_scores(queries[:1], documents, document_lengths=lengths)[0]
                if lengths is not None:
                    self.assertEqual(wanted[1].item(), -math.inf)
                for path in (
                    "flash_maxsim",
                    "flash_maxsim_persistent",
                    "flash_maxsim_qreuse",
                    "flash_maxsim_splitk",
                    "flash_maxsim_exp.flash_maxsim_heuristic",
                ):
                    self.scores_near(named(path)(queries[0], documents, lengths), wanted, f"{name} {path}")
                self.scores_near(flash.flash_maxsim(queries[0], documents, lengths, None, True), wanted, name)
        stream = named("flash_maxsim_exp.flash_maxsim_streamed")
        wanted = true_scores(queries[:1], documents)[0]
        for size in (1, 3, 7, 8):
            self.scores_near(stream(queries[0], documents, size), wanted, f"{size} at a time")

    def test_several_queries_over_documents(self):
        for name, queries, documents in self.cases():
            query_lengths, lengths = self.lengths(queries.shape[1], 3), self.lengths(documents.shape[1], 7)
            wanted = true_scores(queries, documents, query_lengths=query_lengths, document_lengths=lengths)
            self.assertEqual(wanted[1].abs().max().item(), 0.0)  # a query without a token
            got = flash.flash_maxsim_batched(queries, documents, lengths, query_lengths=query_lengths)
            self.scores_near(got, wanted, name)
            self.scores_near(flash.flash_maxsim_persistent(queries, documents), true_scores(queries, documents), name)
            own = self.values(3, 2, *documents.shape[1:], dtype=documents.dtype)
            lengths = self.lengths(documents.shape[1], 3, 2)
            wanted = true_scores(queries, own, query_lengths=query_lengths, document_lengths=lengths)
            for form in (lengths, lengths.flatten(), lengths.long()):
                got = flash.flash_maxsim_batched(queries, own, form, False, query_lengths)
                self.scores_near(got, wanted, name)
                self.scores_near(flash.flash_maxsim_rerank_padded(queries, own, query_lengths, form), wanted, name)
            self.scores_near(flash.flash_maxsim_rerank_padded(queries, own), true_scores(queries, own), name)

    def test_documents_where_they_lie(self):
        for name, queries, documents in self.cases():
            lengths = self.lengths(documents.shape[1], 7)
            wanted = true_scores(queries[:1], documents, document_lengths=lengths)[0]
            rows, offsets, longest = flash.pack_docs([one[:n] for one, n in zip(documents, lengths)])
            self.assertEqual((offsets.dtype, longest), (torch.int32, int(lengths.max())))
            for got in (
                flash.flash_maxsim(queries[0], rows, offsets),
                flash.flash_maxsim_packed(queries[0], rows, offsets.long()),
                flash.flash_maxsim_rerank(queries[0], rows, offsets, longest),
                flash.flash_maxsim_rerank_direct(
                    queries[0], documents.flatten(0, 1), torch.arange(7) * documents.shape[1], lengths, longest
                ),
            ):
                self.scores_near(got, wanted, name)
        rows = self.values(40, 8)
        got = flash.flash_maxsim_rerank_direct(rows[:4], rows, torch.tensor([30, 2, 2]), torch.tensor([5, 9, 0]), 9)
        wanted = [true_scores(rows[None, :4], rows[None, begin:end])[0, 0] for begin, end in ((30, 35), (2, 11))]
        self.scores_near(got, torch.stack([*wanted, torch.tensor(-math.inf).double()]), "overlapping")

    def test_pairs(self):
        for name, queries, documents in self.cases():
            documents = documents[:3]
            wanted = true_scores(queries, documents, paired=True)
            for form in ((queries, documents), (list(queries), list(documents))):
                self.scores_near(flash.flash_maxsim_pairs(*form), wanted, name)
            counts = {"query_lengths": torch.tensor([1, 1, 0]), "document_lengths": self.lengths(documents.shape[1], 3)}
            wanted = true_scores(queries, documents, paired=True, **counts)
            self.scores_near(flash.flash_maxsim_pairs_dense(queries, documents, *counts.values()), wanted, name)
            lists = [
                [one[:n] for one, n in zip(sequences, lengths)]
                for sequences, lengths in zip((queries, documents), counts.values())
            ]
            self.scores_near(flash.flash_maxsim_pairs(*lists), wanted, name)
            self.scores_near(flash.flash_maxsim_varlen(*flash.pack_pairs(*lists)), wanted, name)

    def test_queries_take_the_type_of_the_documents(self):
        queries, documents = self.values(5, 16), self.values(4, 9, 16)
        for query_type, document_type in itertools.product((*FLOATS, torch.float64), repeat=2):
            query, stored = queries.to(query_type), documents.to(document_type)
            wanted = true_scores(query.to(document_type)[None], stored)[0]
            self.scores_near(flash.flash_maxsim(query, stored), wanted, f"{query_type} {document_type}")

    def test_chosen_query_tokens(self):
        for name, queries, documents in self.cases():
            chosen = self.integers(0, queries.shape[1] - 1, 7, 4)
            wanted = true_scores(queries[0][chosen.long()], documents, paired=True)
            self.near(
                named("flash_maxsim_sparse.maxsim_sparse_naive")(queries[0], documents, chosen), wanted, name=name
            )
            self.scores_near(flash.flash_maxsim_sparse(queries[0], documents, chosen), wanted, name)
            lengths = self.lengths(documents.shape[1], 7)
            wanted = true_scores(queries[0][chosen.long()], documents, paired=True, document_lengths=lengths)
            for part_bytes in (1, 2**26):
                with mock.patch(PARTS, part_bytes):
                    self.scores_near(flash.flash_maxsim_sparse(queries[0], documents, chosen, lengths), wanted, name)

    def test_scores_without_train_in_the_name_have_no_graph(self):
        query, documents = self.values(5, 16).requires_grad_(), self.values(4, 9, 16).requires_grad_()
        batch = query[None]
        rows, offsets, longest = flash.pack_docs(list(documents))
        codes, scales, low = flash.quantize_int8(documents)
        symmetric = flash.quantize_int8_symmetric(documents)
        for scores in (
            flash.flash_maxsim(query, documents),
            flash.flash_maxsim(query, rows, offsets),
            flash.flash_maxsim_batched(batch, documents),
            flash.flash_maxsim_persistent(query, documents),
            flash.flash_maxsim_pairs(batch, documents[:1]),
            flash.flash_maxsim_varlen(*flash.pack_pairs([query], [documents[0]])),
            flash.flash_maxsim_rerank(query, rows, offsets, longest),
            flash.flash_maxsim_rerank_direct(query, rows, offsets[:-1], offsets.diff(), longest),
            flash.flash_maxsim_rerank_padded(batch, documents[None]),
            flash.flash_maxsim_sparse(query, documents, torch.zeros(4, 2).int()),
            flash.flash_maxsim_topk(query, documents, 2)[0],
            flash.flash_maxsim_int8(query, codes, scales, low),
            flash.flash_maxsim_int8_symmetric(query, *symmetric),
            flash.flash_maxsim_int8x8(query, *symmetric),
        ):
            self.assertFalse(scores.requires_grad)

    def test_naive_functions(self):
        queries, documents, lengths = self.values(3, 5, 8), self.values(7, 9, 8), self.integers(1, 9, 7)
        wanted = true_scores(queries, documents)
        for got in (
            flash.maxsim_naive(queries[0], documents),
            flash.maxsim_naive_fp32(queries[0], documents),
            flash.maxsim_at_operator(queries[0], documents),
            flash.maxsim_bmm(queries[0], documents),
            flash.maxsim_chunked(queries[0], documents, 3),
            flash.maxsim_chunked(queries[0], documents, 7, True),
        ):
            self.near(got, wanted[0])
        self.near(flash.maxsim_naive_batched(queries, documents), wanted)
        own = self.values(3, 7, 9, 8)
        got = flash.maxsim_naive_batched(queries, own, lengths, shared_docs=False)
        self.near(got, true_scores(queries, own, document_lengths=lengths.expand(3, 7)))
        wanted = true_scores(queries[:1], documents, document_lengths=lengths)[0]
        for score in (flash.maxsim_naive, flash.maxsim_naive_fp32):
            self.near(score(queries[0], documents, lengths), wanted)
        self.assertEqual(flash.maxsim_naive(queries[0].half(), documents.half()).dtype, torch.float16)
        self.assertEqual(flash.maxsim_naive_fp32(queries[0].half(), documents.half()).dtype, torch.float32)

    def test_warming_up_counts_the_shapes_that_worked(self):
        result = flash.warmup([(2, 3, 4, 8), (2, 3, 4, 5000)], [(2, 3, 4, 8)])
        self.assertEqual((result["fwd_shapes"], result["bwd_shapes"]), (1, 1))
        self.assertGreater(result["wall_seconds"], 0)


class ChamferTest(CompatTest):
    def test_distances_and_nearest_points(self):
        one_direction = named("flash_chamfer.flash_chamfer_one_direction")
        for dtype, (num_points, num_others, dim) in itertools.product(FLOATS, SHAPES):
            points = self.values(num_points, dim, dtype=dtype).requires_grad_()
            others = self.values(num_others, dim, dtype=dtype)
            differences = (points.detach().double()[:, None] - others.double()).abs()
            for metric, matrix in (("l2_sq", differences.square().sum(-1)), ("l1", differences.sum(-1))):
                there, back = matrix.min(1).values, matrix.min(0).values
                for part_bytes in (1, 2**26):
                    with mock.patch(PARTS, part_bytes):
                        self.scores_near(one_direction(points, others, metric), there)
                        self.scores_near(flash.flash_chamfer(points, others, metric), there.mean() + back.mean())
                naive = flash.naive_chamfer_one_direction(points.detach(), others, metric)
                self.near(naive, there, rounding=1e-3)
                naive = flash.naive_chamfer(points.detach(), others, metric)
                self.near(naive, there.mean() + back.mean(), rounding=1e-3)
            distances, nearest = one_direction(points, others, save_argmin=True)
            self.assertEqual(nearest.dtype, torch.int32)
            at_nearest = (points.detach().double() - others.double()[nearest.long()]).square().sum(-1)
            self.near(at_nearest, differences.square().sum(-1).min(1).values)
            self.near(distances.detach(), at_nearest)
        _, nearest = one_direction(torch.zeros(2, 3), torch.ones(4, 3), save_argmin=True)
        self.assertEqual(nearest.tolist(), [0, 0])

    def test_what_does_not_fit_names_it(self):
        points, one_direction = self.values(4, 3), named("flash_chamfer.flash_chamfer_one_direction")
        for text, call in (
            (r"P has shape \(4,\)", lambda: flash.flash_chamfer(points[:, 0], points)),
            ("P has 3 columns, but Q has 2", lambda: flash.flash_chamfer_train(points, points[:, :2])),
            ("metric is 'l2'", lambda: flash.flash_chamfer(points, points, "l2")),
            ("no save_argmin", lambda: one_direction(points, points, "l1", True)),
        ):
            with self.assertRaisesRegex(AssertionError, text):
                call()


class Int8Test(CompatTest):
    def test_codes_stand_for_values_within_half_a_step(self):
        for dtype in FLOATS:
            documents = self.values(3, 5, 24, dtype=dtype)
            documents[1, 2] = 0.0
            codes, scales, low = flash.quantize_int8(documents)
            self.assertEqual((codes.dtype, scales.dtype, low.dtype), (torch.uint8, torch.float16, torch.float16))
            self.assertEqual((tuple(scales.shape), tuple(low.shape)), ((3, 5, 1), (3, 5, 1)))
            self.assertEqual((int(codes[0].max()), int(codes[0].min())), (255, 0))
            restored = flash.dequantize_int8(codes, scales, low)
            self.assertLess((restored - documents.float()).abs().max().item(), 0.02)
            codes, scales = flash.quantize_int8_symmetric(documents)
            self.assertEqual((codes.dtype, scales.dtype, int(codes.min() < -127)), (torch.int8, torch.float16, 0))
            self.assertLess((codes.float() * scales - documents.float()).abs().max().item(), 0.02)
            self.assertEqual(codes[1, 2].abs().max().item(), 0)
            query_codes, query_scales = flash.quantize_query_int8(documents[0])
            self.assertTrue(torch.equal(query_codes, codes[0]))
            self.assertTrue(torch.equal(query_scales, scales[0, :, 0]))

    def test_scores_are_those_of_the_values_that_the_codes_stand_for(self):
        for name, queries, documents in self.cases():
            # The functions round restored documents to float16 unless the query is float32.
            rounding = 2e-3 * queries.shape[1] * queries.shape[2] if queries.dtype != torch.float32 else 0
            lengths = self.lengths(documents.shape[1], 7)
            codes, scales, low = flash.quantize_int8(documents)
            wanted = true_scores(queries[:1], flash.dequantize_int8(codes, scales, low), document_lengths=lengths)[0]
            for part_bytes, squeezed in ((1, False), (2**26, True)):
                bounds = (scales.squeeze(-1), low.squeeze(-1)) if squeezed else (scales, low)
                with mock.patch(PARTS, part_bytes):
                    got = flash.flash_maxsim_int8(queries[0], codes, *bounds, lengths)
                torch.testing.assert_close(got.double(), wanted, rtol=1e-5, atol=max(rounding, 1e-4), msg=name)
            codes, scales = flash.quantize_int8_symmetric(documents)
            wanted = true_scores(queries[:1], codes.double() * scales, document_lengths=lengths)[0]
            got = flash.flash_maxsim_int8_symmetric(queries[0], codes, scales, lengths)
            torch.testing.assert_close(got.double(), wanted, rtol=1e-5, atol=max(rounding, 1e-4), msg=name)
            query, query_scales = flash.quantize_query_int8(queries[0])
            wanted = true_scores(query.double()[None] * query_scales.double()[:, None], codes.double() * scales,
                                 document_lengths=lengths)[0]  # fmt: skip
            self.scores_near(flash.flash_maxsim_int8x8(queries[0], codes, scales, doc_lengths=lengths), wanted, name)
            got = flash.flash_maxsim_int8x8(None, codes, scales.squeeze(-1), query, query_scales, lengths)
            self.scores_near(got, wanted, name)
        got = flash.maxsim_naive_int8(queries[0].half(), codes, scales)
        self.near(got, true_scores(queries[:1].half(), codes.double() * scales)[0], rounding=0.1)

    def test_the_best_documents_have_exact_scores(self):
        query, documents = self.values(5, 32), self.values(100, 9, 32)
        lengths = self.lengths(9, 100)
        exact = true_scores(query[None], documents, document_lengths=lengths)[0]
        scores, indices = flash.flash_maxsim_topk(query, documents, 6, lengths)
        self.assertEqual(indices.tolist(), exact.topk(6).indices.tolist())
        self.near(scores, exact.topk(6).values)
        quantised = dict(zip(("D_int8", "scales", "mins"), flash.quantize_int8(documents)))
        scores, indices = flash.flash_maxsim_topk(query, documents, 6, lengths, **quantised)
        self.assertEqual(indices.tolist(), exact.topk(6).indices.tolist())
        self.near(scores, exact.topk(6).values)
        # With one candidate, only the INT8 scores decide. They are reversed here, so that the result shows that they
        # were used.
        quantised = {name: tensor.flip(0) for name, tensor in quantised.items()}
        _, indices = flash.flash_maxsim_topk(query, documents, 1, n_candidates=1, **quantised)
        self.assertEqual(indices.item(), 99 - true_scores(query[None], documents)[0].argmax().item())
        self.assertEqual(len(flash.flash_maxsim_topk(query, documents[:3], 6)[0]), 3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
