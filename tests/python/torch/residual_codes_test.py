"""Tests maxsim_torch.residual_code_scores on the CPU and, if there is one, on a GPU. Compares scores, matches and
gradients with plain PyTorch in float64, and runs PyTorch's checks of operators.

python residual_codes_test.py LIBMAXSIM.so        with torch installed
"""

import itertools
import math
import os
import pathlib
import sys
import unittest

os.environ["MAXSIM_LIBRARY"] = str(pathlib.Path(sys.argv.pop(1)).resolve())
ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "client" / "torch"))

import torch  # noqa: E402

import maxsim_torch  # noqa: E402
from maxsim_torch import decompress_residual_codes, residual_code_scores  # noqa: E402
from maxsim_torch import residual_codes_reference as plain  # noqa: E402

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
SEED = int(os.environ.get("MAXSIM_TEST_SEED", "20240611"))
DEVICES = ("cpu", "cuda") if maxsim_torch.device_available("cuda") else ("cpu",)
# Allowed error of the score of a query with 33 tokens, by the type to which vectors are rounded.
TOLERANCE = {torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 2e-1}


class Codes:
    """Random codes, and queries for them."""

    def __init__(self, shape, nbits=2, dim=40, num_queries=4, dtype=torch.float32, centroids=50):
        self.random = torch.Generator().manual_seed(SEED)
        self.queries = torch.nn.functional.normalize(self.normal(num_queries, 33, dim), dim=-1).to(dtype)
        self.tensors = (
            self.integers(0, centroids, *shape),
            self.integers(0, 256, *shape, dim * nbits // 8).to(torch.uint8),
            (0.3 * self.normal(centroids, dim)).to(dtype),
            0.1 * self.normal(2**nbits),
        )

    def normal(self, *shape):
        return torch.randn(shape, generator=self.random)

    def integers(self, low, high, *shape):
        return torch.randint(low, high, shape, generator=self.random)

    def run(self, function, device="cpu", dtype=None, **arguments):
        """Returns scores, matches, and the gradients of a randomly weighted sum of the scores."""
        queries = self.queries.detach().clone().to(device, dtype or self.queries.dtype).requires_grad_()
        numbers, residuals, centroids, weights = (tensor.to(device) for tensor in self.tensors)
        if dtype is not None:
            # Rounds the bucket weights to the queries' type first, as the tested function does.
            centroids, weights = centroids.to(dtype), weights.to(self.queries.dtype).to(dtype)
        arguments = {
            name: value.to(device) if isinstance(value, torch.Tensor) else value for name, value in arguments.items()
        }
        if "weights" in arguments:
            arguments["weights"] = arguments["weights"].clone().to(dtype or torch.float32).requires_grad_()
        scores, argmax = function(
            queries, numbers, residuals, centroids, weights, return_argmax=True, empty_score=-3.0, **arguments
        )
        mixture = torch.randint(-8, 9, scores.shape, generator=torch.Generator().manual_seed(SEED)) / 8.0
        (scores * mixture.to(scores)).sum().backward()
        gradients = [queries.grad]
        if "weights" in arguments:
            gradients.append(arguments["weights"].grad)
        return scores.detach().cpu(), argmax.cpu(), [gradient.cpu() for gradient in gradients]


class ScoresTest(unittest.TestCase):
    def expect(self, codes, device, **arguments):
        scores, argmax, gradients = codes.run(residual_code_scores, device, **arguments)
        expected, expected_argmax, expected_gradients = codes.run(
            plain.residual_code_scores, dtype=torch.float64, **arguments
        )
        tolerance = TOLERANCE[codes.queries.dtype]
        self.assertEqual((scores.dtype, argmax.dtype), (torch.float32, torch.int32))
        torch.testing.assert_close(scores.double(), expected, rtol=0, atol=tolerance)
        if codes.queries.dtype == torch.float32:
            self.assertTrue(torch.equal(argmax, expected_argmax))
            for gradient, wanted in zip(gradients, expected_gradients):
                torch.testing.assert_close(gradient.double(), wanted, rtol=0, atol=1e-4)
        return scores

    def test_every_number_of_bits_type_and_order_gives_the_scores_of_decoded_vectors(self):
        for device, dtype, nbits in itertools.product(DEVICES, FLOATS, (1, 2, 4, 8)):
            for normalize, bit_order in ((True, "colbert"), (False, "low_first")):
                with self.subTest(f"{device} {dtype} {nbits} {normalize} {bit_order}"):
                    codes = Codes((6, 50), nbits, dtype=dtype)
                    self.expect(codes, device, normalize=normalize, bit_order=bit_order)

    def test_the_orders_of_bits_differ(self):
        codes = Codes((6, 50))
        colbert, low_first = (codes.run(residual_code_scores, bit_order=order)[0] for order in ("colbert", "low_first"))
        self.assertGreater((colbert - low_first).abs().max().item(), 0.1)

    def test_lengths_masks_weights_and_lists_are_those_of_maxsim_scores(self):
        for device in DEVICES:
            codes = Codes((6, 50), nbits=4)
            more = {
                "document_lengths": torch.tensor([50, 0, 1, 17, 49, 32], dtype=torch.int32),
                "document_mask": torch.rand(6, 50, generator=codes.random) < 0.6,
                "query_lengths": torch.tensor([33, 0, 1, 20]),
                "query_mask": torch.rand(4, 33, generator=codes.random) < 0.7,
                "weights": torch.rand(4, 33, generator=codes.random),
            }
            self.assertEqual(self.expect(codes, device, **more).shape, (4, 6))
            self.expect(codes, device, candidates=codes.integers(0, 6, 4, 9), **more)
            paired = Codes((4, 50), nbits=1)
            self.assertEqual(self.expect(paired, device, paired=True, weights=more["weights"]).shape, (4,))
            lists = Codes((4, 3, 20), nbits=8)
            self.assertEqual(self.expect(lists, device, weights=more["weights"]).shape, (4, 3))

    def test_packed_and_scattered_documents_are_those_of_padded_ones(self):
        for device in DEVICES:
            codes = Codes((6, 50))
            lengths = torch.tensor([50, 0, 1, 17, 49, 32])
            padded = codes.run(residual_code_scores, device, document_lengths=lengths)
            numbers, residuals, centroids, weights = codes.tensors
            there = torch.arange(50) < lengths[:, None]
            offsets = torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).to(torch.int32)
            codes.tensors = (numbers[there].to(torch.int32), residuals[there], centroids, weights)
            packed = codes.run(residual_code_scores, device, document_offsets=offsets)
            codes.tensors = (numbers.flatten(), residuals.flatten(0, 1), centroids, weights)
            scattered = codes.run(
                residual_code_scores, device, document_offsets=torch.arange(6) * 50, document_lengths=lengths
            )
            for other in (packed, scattered):
                self.assertTrue(torch.equal(other[0], padded[0]) and torch.equal(other[1], padded[1]))
                self.assertTrue(torch.equal(other[2][0], padded[2][0]))

    def test_one_query_is_a_batch_of_one_without_its_dimension(self):
        codes = Codes((6, 50))
        both = residual_code_scores(codes.queries, *codes.tensors)
        one = residual_code_scores(codes.queries[0], *codes.tensors)
        self.assertTrue(torch.equal(one, both[0]))
        masked = residual_code_scores(
            codes.queries[0], *codes.tensors, query_mask=torch.arange(33) < 9, weights=torch.ones(33)
        )
        self.assertTrue(torch.equal(masked, residual_code_scores(codes.queries[0, :9], *codes.tensors)))

    def test_what_does_not_count_is_not_read(self):
        for device in DEVICES:
            codes = Codes((6, 50))
            lengths = torch.tensor([50, 3, 1, 17, 49, 32])
            wanted = codes.run(residual_code_scores, device, document_lengths=lengths)
            numbers = codes.tensors[0]
            numbers[torch.arange(50) >= lengths[:, None]] = 2**40
            again = codes.run(residual_code_scores, device, document_lengths=lengths)
            self.assertTrue(torch.equal(wanted[0], again[0]))

    def test_centroids_of_another_type_are_converted(self):
        codes = Codes((6, 50))
        numbers, residuals, centroids, weights = codes.tensors
        halves = centroids.half()
        self.assertTrue(
            torch.equal(
                residual_code_scores(codes.queries, numbers, residuals, halves, weights.half()),
                residual_code_scores(codes.queries, numbers, residuals, halves.float(), weights.half().float()),
            )
        )

    def test_twenty_runs_have_the_same_bits(self):
        for device in DEVICES:
            codes = Codes((90, 130), nbits=4, dim=128, dtype=torch.bfloat16)
            first = codes.run(residual_code_scores, device)
            for _ in range(20):
                again = codes.run(residual_code_scores, device)
                self.assertTrue(torch.equal(first[0], again[0]) and torch.equal(first[1], again[1]))
                self.assertTrue(torch.equal(first[2][0], again[2][0]))

    @unittest.skipUnless("cuda" in DEVICES, "needs a GPU")
    def test_a_gpu_gives_what_the_cpu_does(self):
        for dtype in FLOATS:
            codes = Codes((90, 130), nbits=2, dim=128, dtype=dtype)
            scores = [codes.run(residual_code_scores, device)[0] for device in DEVICES]
            torch.testing.assert_close(scores[0], scores[1], rtol=1e-5, atol=1e-4)

    @unittest.skipUnless("cuda" in DEVICES, "needs a GPU")
    def test_a_call_is_captured_into_a_graph(self):
        codes = Codes((90, 130), nbits=2, dim=128, dtype=torch.bfloat16)
        arguments = [tensor.cuda() for tensor in (codes.queries, *codes.tensors)]
        wanted = residual_code_scores(*arguments)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = residual_code_scores(*arguments)
        captured.fill_(math.nan)
        graph.replay()
        self.assertTrue(torch.equal(captured, wanted))


class OperatorTest(unittest.TestCase):
    def test_opcheck_finds_nothing(self):
        codes = Codes((6, 50))
        lengths = torch.tensor([50, 0, 1, 17, 49, 32])
        for weights, candidates in ((None, None), (torch.rand(4, 33), torch.tensor([[1, 5]] * 4))):
            for with_argmax in (False, True):
                # Without matches there is no gradient.
                queries = codes.queries.clone().requires_grad_(with_argmax)
                pairing, length = (0, 6) if candidates is None else (2, 2)
                inputs = (queries, None, None, weights, *codes.tensors, None, None, lengths, candidates)
                numbers = (6, 50, pairing, length, -1.0, True, 0)
                torch.library.opcheck(
                    torch.ops.maxsim_torch.residual_code_scores.default, (*inputs, *numbers, with_argmax)
                )
            scores, argmax = torch.ops.maxsim_torch.residual_code_scores(*inputs, *numbers, True)
            inputs = (codes.queries, *inputs[1:])
            torch.library.opcheck(
                torch.ops.maxsim_torch.residual_code_scores_backward.default,
                (scores.detach(), argmax, *inputs, *numbers[:4], *numbers[5:], True, weights is not None),
            )

    def test_compiles_into_one_graph(self):
        codes = Codes((6, 50))

        def loss(queries):
            return residual_code_scores(queries, *codes.tensors).softmax(-1)[:, 0].log().sum()

        results = []
        for function in (loss, torch.compile(loss, backend="aot_eager", fullgraph=True)):
            queries = codes.queries.clone().requires_grad_()
            value = function(queries)
            value.backward()
            results.append((value.detach(), queries.grad))
        for eager, compiled in zip(*results):
            self.assertTrue(torch.equal(eager, compiled))


class ErrorsTest(unittest.TestCase):
    def refuse(self, error, pattern, queries, *codes, **more):
        with self.assertRaisesRegex(error, pattern):
            residual_code_scores(queries, *codes, **more)

    def test_an_error_names_the_argument(self):
        codes = Codes((6, 50), nbits=2, dim=40)
        queries, (numbers, residuals, centroids, weights) = codes.queries, codes.tensors
        self.refuse(TypeError, "queries have type torch.float64", queries.double(), *codes.tensors)
        self.refuse(ValueError, r"queries have shape \(40,\)", queries[0, 0], *codes.tensors)
        narrow = numbers, residuals, centroids[:, 1:], weights
        self.refuse(ValueError, "centroids have 39 columns, but queries have 40", queries, *narrow)
        self.refuse(ValueError, r"bucket_weights are .* \(3,\)", queries, numbers, residuals, centroids, weights[1:])
        self.refuse(ValueError, "uint8 .*9", queries, numbers, residuals[..., 1:], centroids, weights)
        self.refuse(TypeError, "centroid_numbers have type", queries, numbers.float(), residuals, centroids, weights)
        self.refuse(ValueError, "bit_order is 'big'", queries, *codes.tensors, bit_order="big")
        self.refuse(TypeError, "centroids is of type list", queries, numbers, residuals, [[0.0]], weights)
        wrong = {"query_lengths": torch.tensor([1, 2])}
        self.refuse(ValueError, "one query has one length", queries[0], *codes.tensors, **wrong)
        wrong = {"weights": torch.ones(1, 3)}
        self.refuse(ValueError, r"weights .* \(1, 3\); must be \(\d+,\)", queries[0], *codes.tensors, **wrong)
        wrong = {"document_offsets": torch.tensor([0, 1])}
        self.refuse(ValueError, r"with document_offsets they must be \[tokens\]", queries, *codes.tensors, **wrong)
        self.refuse(ValueError, r"weights have shape \(3,\)", queries, *codes.tensors, weights=torch.ones(3))
        self.refuse(ValueError, r"must be \[Nd, Ld\]", queries, numbers[0], residuals[0], centroids, weights)
        self.refuse(ValueError, "4 queries are paired with 6", queries, *codes.tensors, paired=True)
        self.refuse(
            NotImplementedError, "centroids require", queries, numbers, residuals, centroids.requires_grad_(), weights
        )

    def test_queries_without_tokens_have_no_weights(self):
        codes = Codes((6, 50))
        scores = residual_code_scores(codes.queries[:, :0], *codes.tensors, weights=torch.ones(4, 0))
        self.assertEqual(scores.abs().sum().item(), 0)

    def test_columns_that_do_not_fill_bytes_are_refused(self):
        numbers, residuals = torch.zeros(1, 2, dtype=torch.int64), torch.zeros(1, 2, 32, dtype=torch.uint8)
        pattern = "centroids have 130 columns; 2 bits per value need a multiple of 4"
        self.refuse(
            ValueError, pattern, torch.randn(1, 2, 130), numbers, residuals, torch.randn(3, 130), torch.randn(4)
        )

    def test_a_wrong_centroid_number_is_refused_on_the_cpu(self):
        codes = Codes((6, 50))
        codes.tensors[0][3, 7] = 50
        pattern = "centroid number of document 3, token 7 is 50; there are 50 centroids"
        self.refuse(ValueError, pattern, codes.queries, *codes.tensors)


class ReferenceTest(unittest.TestCase):
    def test_codes_that_do_not_fit_are_not_decompressed(self):
        numbers, residuals = torch.tensor([1]), torch.tensor([[0]], dtype=torch.uint8)
        centroids, weights = torch.zeros(2, 8), torch.zeros(2)
        for error, pattern, arguments, more in (
            (ValueError, "bit_order is 'Low'", (numbers, residuals, centroids, weights), {"bit_order": "Low"}),
            (TypeError, "centroid_numbers have type", (numbers.float(), residuals, centroids, weights), {}),
            (ValueError, "bucket_weights are", (numbers, residuals, centroids, weights[:1]), {}),
            (ValueError, r"residuals are torch.uint8 \(1, 0\)", (numbers, residuals[:, 1:], centroids, weights), {}),
            (ValueError, r"centroids are .* \(8,\)", (numbers, residuals, centroids[0], weights), {}),
            (TypeError, "centroids is of type list", (numbers, residuals, [0.0], weights), {}),
        ):
            with self.assertRaisesRegex(error, pattern):
                decompress_residual_codes(*arguments, **more)

    def test_buckets_are_in_the_order_of_colbert(self):
        # The buckets 1, 2, 3 and 0 have two bits each. The first bucket is in the byte's highest bits, and the bits of
        # each bucket are in reverse order.
        packed = torch.tensor([0b10011100], dtype=torch.uint8)
        self.assertEqual(plain.unpack_buckets(packed, 2).tolist(), [1, 2, 3, 0])
        self.assertEqual(plain.unpack_buckets(packed, 2, "low_first").tolist(), [0, 3, 1, 2])
        self.assertEqual(plain.unpack_buckets(packed, 8, "low_first").tolist(), [0b10011100])

    def test_vectors_are_sums_of_centroids_and_weights(self):
        numbers, residuals = torch.tensor([1]), torch.tensor([[0b10000000]], dtype=torch.uint8)
        centroids = torch.stack([torch.zeros(8), torch.arange(8.0)])
        weights = torch.tensor([0.0, 3.0])
        vectors = decompress_residual_codes(numbers, residuals, centroids, weights, normalize=False)
        self.assertEqual(vectors.tolist(), [[3, 1, 2, 3, 4, 5, 6, 7]])
        normalised = decompress_residual_codes(numbers, residuals, centroids, weights)
        self.assertAlmostEqual(normalised.norm().item(), 1, places=6)


if __name__ == "__main__":
    print(f"MAXSIM_TEST_SEED={SEED}", flush=True)
    unittest.main(verbosity=2)
