"""Compares all gradients of maxsim_torch.compat.flash_maxsim with float64.

python flash_maxsim_gradients_test.py LIBMAXSIM.so        with torch installed
"""

import itertools
import unittest
from unittest import mock

import torch
from flash_maxsim_case import FLOATS, PARTS, ROUNDING, CompatTest, flash, named, reference

BATCHED = (
    "flash_maxsim_batched_train",
    "flash_maxsim_invgrid_proposal.flash_maxsim_invgrid_train",
    "flash_maxsim_fusedbwd_proposal.flash_maxsim_batched_train_fused",
    "flash_maxsim_persistbwd_proposal.flash_maxsim_batched_train_persistbwd",
    "flash_maxsim_sortbwd_proposal.flash_maxsim_batched_train_sortbwd",
)


class GradientsTest(CompatTest):
    def gradients(self, score, queries, documents, mixture, *arguments, **more):
        """Returns the scores, and the gradients of queries and documents for a weighted sum of all finite scores."""
        inputs = [tensor.detach().clone().requires_grad_() for tensor in (queries, documents)]
        scores = score(*inputs, *arguments, **more)
        finite = scores.detach().isfinite()
        scores.backward(torch.where(finite, mixture.to(scores), 0))
        for tensor in inputs:
            self.assertEqual(tensor.grad.dtype, tensor.dtype)
        return scores.detach(), inputs[0].grad, inputs[1].grad

    def test_gradients_are_those_of_float64(self):
        for (name, queries, documents), shared in itertools.product(self.cases(), (True, False)):
            if not shared:
                documents = self.values(3, 2, *documents.shape[1:], dtype=documents.dtype)
            query_lengths = self.lengths(queries.shape[1], 3)
            lengths = self.lengths(documents.shape[-2], *documents.shape[:-2])
            mixture = self.mixture(3, documents.shape[-3])
            wanted = self.gradients(reference.maxsim_scores, queries.double(), documents.double(), mixture,
                                    query_lengths=query_lengths, document_lengths=lengths)  # fmt: skip
            for path in BATCHED:
                got = self.gradients(named(path), queries, documents, mixture, shared, lengths, query_lengths)
                self.near(got[0], wanted[0], name=name)
                for mine, exact in zip(got[1:], wanted[1:]):
                    self.near(mine, exact, ROUNDING[queries.dtype], f"{name} shared={shared} {path}")
        mixture = torch.arange(7) / 4.0
        for name, queries, documents in self.cases():
            wanted = self.gradients(reference.maxsim_scores, queries[:1].double(), documents.double(), mixture[None])
            got = self.gradients(flash.flash_maxsim_train, queries[0], documents, mixture)
            for mine, exact in zip(got, (wanted[0][0], wanted[1][0], wanted[2])):
                self.near(mine, exact, ROUNDING[queries.dtype], name)

    def test_of_equal_tokens_the_first_gets_the_gradient(self):
        queries, documents = torch.ones(1, 2, 8), torch.ones(1, 3, 8)
        for path in ("flash_maxsim_batched_train", "flash_maxsim_int8_batched_train"):
            _, _, gradient = self.gradients(named(path), queries, documents, torch.ones(1, 1))
            self.assertEqual(gradient[0, :, 0].tolist(), [2.0, 0.0, 0.0])

    def test_int8_shows_in_the_gradient_of_queries_alone(self):
        for (name, queries, documents), shared in itertools.product(self.cases(), (True, False)):
            if not shared:
                documents = self.values(3, 2, *documents.shape[1:], dtype=documents.dtype)
            lengths = self.lengths(documents.shape[-2], *documents.shape[:-2])
            query_lengths = self.lengths(queries.shape[1], 3)
            mixture = self.mixture(3, documents.shape[-3])
            arguments = (queries, documents, mixture, shared, lengths, query_lengths)
            exact = self.gradients(flash.flash_maxsim_batched_train, *arguments)
            for part_bytes in (1, 2**26):
                with mock.patch(PARTS, part_bytes):
                    got = self.gradients(flash.flash_maxsim_int8_batched_train, *arguments)
                self.assertTrue(torch.equal(got[0], exact[0]), name)
                self.assertTrue(torch.equal(got[2], exact[2]), name)
                # INT8 changes the gradient of a query by at most half a quantisation step per pair. Rounding to the
                # inputs' type adds to that.
                bound = 0.02 * documents.shape[-3] + ROUNDING[queries.dtype] * exact[1].abs().max().item()
                self.assertLess((got[1] - exact[1]).abs().max().item(), bound, name)
        frozen = queries.detach().clone().requires_grad_()
        flash.flash_maxsim_int8_batched_train(frozen, documents, False).sum().backward()
        self.assertIsNone(documents.grad)
        self.assertTrue(frozen.grad.isfinite().all())

    def test_a_contrastive_step_adds_the_gradients_of_the_cross_entropy(self):
        step = named("flash_maxsim_contrastive.colbert_contrastive_step")
        for dtype, labels in itertools.product(FLOATS, (None, torch.tensor([4, 1, 1]))):
            queries, documents = self.values(3, 5, 16, dtype=dtype), self.values(6, 9, 16, dtype=dtype)
            inputs = [tensor.double().requires_grad_() for tensor in (queries, documents)]
            places = torch.arange(3) if labels is None else labels
            wanted = torch.nn.functional.cross_entropy(reference.maxsim_scores(*inputs), places)
            wanted.backward()
            queries.requires_grad_()
            for repeats in (1, 2):
                loss = step(queries, documents, labels)
                self.assertEqual((loss.dtype, loss.requires_grad, loss.shape), (torch.float32, False, ()))
                self.near(loss, wanted.detach())
                for mine, exact in zip((queries, documents), inputs):
                    self.near(mine.grad, repeats * exact.grad, 4 * ROUNDING[dtype], f"{dtype} {repeats}")

    def test_the_backward_pass_by_itself(self):
        for name in ("torch_backward", "torch_backward_tiled"):
            backward = named(f"flash_maxsim_torchbwd_proposal.{name}")
            for shared, dtype in itertools.product((True, False), FLOATS):
                queries = self.values(3, 5, 24, dtype=dtype)
                documents = self.values(*((4,) if shared else (3, 4)), 9, 24, dtype=dtype)
                argmax = reference.maxsim_scores(queries.double(), documents.double(), return_argmax=True)[1]
                mixture = self.mixture(3, 4)
                exact = self.gradients(flash.flash_maxsim_batched_train, queries, documents, mixture, shared)
                rows = (argmax.transpose(0, 1) if shared else argmax).reshape(12, 5)
                got = backward(queries, documents, rows, mixture, shared)
                self.assertTrue(torch.equal(got[0], exact[1]))
                self.assertTrue(torch.equal(got[1], exact[2]))
                if not shared:
                    got = backward(queries, documents.flatten(0, 1), rows, mixture, shared)
                    self.assertTrue(torch.equal(got[1], exact[2].flatten(0, 1)))

    def test_gradients_of_the_chamfer_distance(self):
        for dtype, name in itertools.product(FLOATS, ("flash_chamfer_train", "flash_chamfer_invgrid_train")):
            points, others = self.values(20, 3, dtype=dtype), self.values(33, 3, dtype=dtype)
            exact = [tensor.double().requires_grad_() for tensor in (points, others)]
            matrix = (exact[0][:, None] - exact[1]).square().sum(-1)
            wanted = matrix.min(1).values.mean() + matrix.min(0).values.mean()
            wanted.backward()
            inputs = [tensor.requires_grad_() for tensor in (points, others)]
            got = named(name)(*inputs)
            self.assertEqual((got.dtype, tuple(got.shape)), (torch.float32, ()))
            self.near(got.detach(), wanted.detach())
            got.backward()
            for mine, true in zip(inputs, exact):
                self.assertEqual(mine.grad.dtype, dtype)
                # A point's gradient is a sum of its own term and one term for each point to which it is nearest. Each
                # term is rounded.
                bound = 4 * ROUNDING[dtype] * true.grad.abs().max().item() + 1e-6
                self.assertLess((mine.grad - true.grad).abs().max().item(), bound, f"{dtype} {name}")

    def test_lists_of_points_by_their_nearest(self):
        nearest = self.integers(0, 5, 40)
        nearest[nearest == 3] = 4
        row_ptr, sources = named("flash_chamfer_invgrid.build_chamfer_inverse_csr")(nearest, 7)
        self.assertEqual((row_ptr.dtype, sources.dtype, len(row_ptr)), (torch.int32, torch.int32, 8))
        for point in range(7):
            wanted = [source for source in range(40) if nearest[source] == point]
            self.assertEqual(sources[row_ptr[point] : row_ptr[point + 1]].tolist(), wanted)

    def test_lists_of_matches(self):
        num_queries, num_documents, query_tokens, document_tokens = 3, 4, 5, 6
        shape = (num_queries * num_documents, query_tokens)
        argmax = self.integers(0, document_tokens - 1, *shape)
        for shared in (True, False):
            sizes = (argmax, num_queries, num_documents, query_tokens, document_tokens, shared)
            matches, sources = {}, {}
            for pair, token in itertools.product(range(shape[0]), range(query_tokens)):
                row = (pair // num_queries if shared else pair, int(argmax[pair, token]))
                matches.setdefault(row, []).append(pair * query_tokens + token)
                source = pair % num_queries * query_tokens + token if shared else token
                sources.setdefault(row[0] * document_tokens + row[1], []).append(source)
            perm, start, count, document, token = named("flash_maxsim_sparse_dd.build_sparse_dd_tables")(*sizes)
            got = {
                (int(document[u]), int(token[u])): perm[start[u] : start[u] + count[u]].tolist()
                for u in range(len(count))
            }
            self.assertEqual(got, matches)
            row_ptr, columns = named("flash_maxsim_invgrid_proposal.build_inverse_csr")(*sizes)
            num_rows = (num_documents if shared else shape[0]) * document_tokens
            self.assertEqual((len(row_ptr), row_ptr.dtype, columns.dtype), (num_rows + 1, torch.int32, torch.int32))
            for row in range(num_rows):
                self.assertEqual(columns[row_ptr[row] : row_ptr[row + 1]].tolist(), sources.get(row, []))


if __name__ == "__main__":
    unittest.main(verbosity=2)
