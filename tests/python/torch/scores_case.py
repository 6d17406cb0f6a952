"""Random inputs of maxsim_scores, for tests of its results and its operators."""

import itertools
import math
import unittest

from torch_fixture import SEED

import torch

from maxsim_torch import maxsim_scores, reference

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
# The largest relative error of rounding to a type. A gradient may have this error in addition to others.
ROUNDING = {torch.float32: 0, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}


class Case:
    """Random inputs of maxsim_scores. With `ties`, they are small integers, so that many similarities are equal and
    sums are exact."""

    def __init__(self, dtype, pairing="all", ragged=False, masked=False, weighted=False, ties=False):
        random = torch.Generator().manual_seed(SEED)
        self.random = random

        def values(*shape):
            if ties:
                return torch.randint(-1, 2, shape, generator=random).to(dtype)
            return torch.randn(shape, generator=random).to(dtype)

        num_queries, num_documents, length = 5, 6, 4
        self.arguments = {}
        document_shape = (num_documents,)
        if pairing == "paired":
            document_shape = (num_queries,)
            self.arguments["paired"] = True
        elif pairing == "lists":
            document_shape = (num_queries, length)
        elif pairing == "candidates":
            self.arguments["candidates"] = torch.randint(0, num_documents, (num_queries, length), generator=random)
        self.queries = values(num_queries, 33, 40)
        self.documents = values(*document_shape, 50, 40)
        if ragged:
            lengths = torch.randint(1, 34, (num_queries,), generator=random)
            lengths[1] = 0
            self.arguments["query_lengths"] = lengths
            lengths = torch.randint(1, 51, document_shape, generator=random)
            lengths.view(-1)[2] = 0
            self.arguments["document_lengths"] = lengths.to(torch.int32)
        if masked:
            self.arguments["query_mask"] = torch.rand((num_queries, 33), generator=random) < 0.7
            mask = torch.rand((*document_shape, 50), generator=random) < 0.5
            mask.view(-1, 50)[3] = False
            self.arguments["document_mask"] = mask
        if weighted:
            self.arguments["weights"] = torch.randint(-4, 9, (num_queries, 33), generator=random) / 4.0
        # Empty queries and documents get a finite score, so that differences of scores are defined.
        self.arguments["empty_score"] = -3.0

    def names(self):
        return ("queries", "documents", "weights") if "weights" in self.arguments else ("queries", "documents")

    def run(self, function, dtype=None, device="cpu", **more):
        """Returns the results, and the gradients of a random weighted sum of the scores."""
        tensors = {"queries": self.queries.to(device), "documents": self.documents.to(device)}
        arguments = {
            name: value.to(device) if isinstance(value, torch.Tensor) else value
            for name, value in self.arguments.items()
        }
        if "weights" in arguments:
            tensors["weights"] = arguments.pop("weights")
        tensors = {
            name: tensor.detach().to(dtype or tensor.dtype).requires_grad_() for name, tensor in tensors.items()
        }
        scores, argmax = function(**tensors, **arguments, return_argmax=True, **more)
        mixture = torch.randint(-8, 9, scores.shape, generator=torch.Generator().manual_seed(SEED)) / 8.0
        (scores * mixture.to(scores)).sum().backward()
        return scores.detach(), argmax, {name: tensors[name].grad for name in self.names()}


def cases():
    for dtype, pairing in itertools.product(FLOATS, ("all", "paired", "lists", "candidates")):
        for ragged, masked, weighted in ((False, False, False), (True, False, True), (True, True, True)):
            for ties in (False, True):
                name = f"{dtype} {pairing} ragged={ragged} masked={masked} weighted={weighted} ties={ties}"
                yield name, Case(dtype, pairing, ragged, masked, weighted, ties)


def expect_nothing_of_what_does_not_count(test, device):
    """Puts NaN into masked tokens and their weights. Fails the test if that changes a result."""
    case = Case(torch.float16, ragged=True, masked=True, weighted=True)
    scores, argmax, gradients = case.run(maxsim_scores, device=device)
    for tensor, kind in ((case.queries, "query"), (case.documents, "document")):
        lengths, mask = case.arguments[f"{kind}_lengths"], case.arguments[f"{kind}_mask"]
        counts = reference.counting(tuple(tensor.shape[:-1]), lengths, mask, tensor.device)
        tensor[~counts] = math.nan
        if kind == "query":
            case.arguments["weights"][~counts] = math.nan
    again, argmax_again, gradients_again = case.run(maxsim_scores, device=device)
    test.assertTrue(torch.equal(scores, again))
    test.assertTrue(torch.equal(argmax, argmax_again))
    for name, gradient in gradients.items():
        test.assertTrue(torch.equal(gradient, gradients_again[name]), name)


class SeededTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(SEED)
