"""Tests maxsim_torch's nearest points and Chamfer distance on the CPU and, if there is one, on a GPU. Compares
distances, indices and gradients with plain PyTorch in float64, and runs PyTorch's checks of operators.

python nearest_test.py LIBMAXSIM.so        with torch installed
"""

import itertools
import math
import os
import pathlib
import sys
import unittest

os.environ["MAXSIM_LIBRARY"] = str(pathlib.Path(sys.argv.pop(1)).resolve())
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "client" / "torch"))

import torch  # noqa: E402

import maxsim_torch  # noqa: E402
from maxsim_torch import chamfer_distance, nearest_distances, reference  # noqa: E402

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
SEED = int(os.environ.get("MAXSIM_TEST_SEED", "20240611"))
DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() and maxsim_torch.device_available("cuda") else [])


def make_sets(dtype, dim, ragged=False, ties=False, sets=(2, 3), num_x=37, num_y=50):
    """Returns x, y and the arguments for their lengths, all on the CPU."""
    random = torch.Generator().manual_seed(SEED)

    def values(*shape):
        if ties:
            return torch.randint(-2, 3, shape, generator=random).to(dtype)
        return torch.randn(shape, generator=random).to(dtype)

    arguments = {}
    if ragged:
        for name, count in (("x_lengths", num_x), ("y_lengths", num_y)):
            lengths = torch.randint(1, count + 1, sets, generator=random)
            lengths.view(-1)[1 if name == "x_lengths" else 2] = 0
            arguments[name] = lengths
    return values(*sets, num_x, dim), values(*sets, num_y, dim), arguments


def run_nearest(function, x, y, arguments, dtype=None, device="cpu"):
    """Returns distances, argmin, and the gradients of a randomly weighted sum of the finite distances."""
    x, y = (points.to(device, dtype or points.dtype).requires_grad_() for points in (x.detach(), y.detach()))
    arguments = {name: lengths.to(device) for name, lengths in arguments.items()}
    distances, argmin = function(x, y, **arguments)
    mixture = torch.randint(-8, 9, distances.shape, generator=torch.Generator().manual_seed(SEED)) / 8.0
    finite = torch.where(torch.isinf(distances), 0, distances)
    (finite * mixture.to(finite)).sum().backward()
    return distances.detach().cpu(), argmin.cpu(), x.grad.cpu(), y.grad.cpu()


class SeededTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(SEED)


class NearestTest(SeededTest):
    def test_distances_indices_and_gradients_are_those_of_float64(self):
        for device, dtype, dim in itertools.product(DEVICES, FLOATS, (1, 3, 4, 7, 40)):
            for ragged, ties in ((False, False), (True, False), (True, True)):
                with self.subTest(f"{device} {dtype} d={dim} ragged={ragged} ties={ties}"):
                    x, y, arguments = make_sets(dtype, dim, ragged, ties)
                    found = run_nearest(nearest_distances, x, y, arguments, device=device)
                    expected = run_nearest(reference.nearest_distances, x, y, arguments, torch.float64)
                    self.assertEqual(found[0].dtype, torch.float32)
                    self.assertEqual(found[1].dtype, torch.int32)
                    torch.testing.assert_close(found[0].double(), expected[0], rtol=1e-5, atol=1e-9)
                    self.assertTrue(torch.equal(found[1], expected[1]))
                    rounding = {torch.float32: 1e-5, torch.float16: 1e-3, torch.bfloat16: 8e-3}[dtype]
                    for gradient, wanted in zip(found[2:], expected[2:]):
                        self.assertEqual(gradient.dtype, dtype)
                        torch.testing.assert_close(gradient.double(), wanted, rtol=rounding, atol=1e-5)

    def test_points_behind_the_lengths_do_not_matter(self):
        for device in DEVICES:
            x, y, arguments = make_sets(torch.float16, 3, ragged=True)
            expected = run_nearest(nearest_distances, x, y, arguments, device=device)
            for points, name in ((x, "x_lengths"), (y, "y_lengths")):
                points[torch.arange(points.shape[-2]) >= arguments[name].unsqueeze(-1)] = math.nan
            for tensor, wanted in zip(run_nearest(nearest_distances, x, y, arguments, device=device), expected):
                self.assertTrue(torch.equal(tensor, wanted))

    def test_sets_without_batch_and_without_points(self):
        x, y = torch.randn(5, 3), torch.randn(7, 3)
        distances, argmin = nearest_distances(x, y)
        self.assertEqual((distances.shape, argmin.shape), ((5,), (5,)))
        distances, argmin = nearest_distances(x, y[:0])
        self.assertTrue(torch.isinf(distances).all() and (argmin == -1).all())
        self.assertEqual(nearest_distances(x[:0], y).distances.shape, (0,))
        self.assertEqual(nearest_distances(x[None][:0], y[None][:0]).distances.shape, (0, 5))

    def test_twenty_runs_have_the_same_bits(self):
        for device in DEVICES:
            x, y, arguments = make_sets(torch.float32, 3, ragged=True, num_x=1500, num_y=900)
            expected = run_nearest(nearest_distances, x, y, arguments, device=device)
            for _ in range(20):
                for tensor, wanted in zip(run_nearest(nearest_distances, x, y, arguments, device=device), expected):
                    self.assertTrue(torch.equal(tensor, wanted))

    def test_opcheck(self):
        for device in DEVICES:
            x, y, arguments = make_sets(torch.float32, 3, ragged=True, sets=(6,))
            x, y = x.to(device).requires_grad_(), y.to(device).requires_grad_()
            lengths = [tensor.to(device) for tensor in arguments.values()]
            torch.library.opcheck(torch.ops.maxsim_torch.nearest.default, (x, y, *lengths))
            torch.library.opcheck(torch.ops.maxsim_torch.nearest.default, (x, y, None, None))
            x, y = x.detach(), y.detach()
            distances, argmin = torch.ops.maxsim_torch.nearest(x, y, *lengths)
            for asked in ((True, True), (True, False), (False, True)):
                arguments = (torch.ones_like(distances), argmin, x, y, *lengths, *asked)
                torch.library.opcheck(torch.ops.maxsim_torch.nearest_backward.default, arguments)

    def test_an_error_names_the_argument(self):
        x, y, wide = torch.randn(2, 5, 3), torch.randn(2, 7, 3), torch.ones(1, 4097)
        for error, pattern, arguments, more in (
            (TypeError, "x has type torch.float64", (x.double(), y), {}),
            (ValueError, r"y has shape \(3,\)", (x, y[0, 0]), {}),
            (ValueError, r"x is \(2, 5, 3\) of torch.float32 and y \(2, 7, 2\)", (x, y[..., :2]), {}),
            (ValueError, r"x_lengths have shape \(3,\)", (x, y), {"x_lengths": torch.ones(3, dtype=torch.int64)}),
            (TypeError, "y_lengths have type", (x, y), {"y_lengths": torch.ones(2)}),
            (TypeError, "y_lengths is of type list", (x, y), {"y_lengths": [7, 7]}),
            (TypeError, "x is of type float", (1.0, y), {}),
            (ValueError, r"y_lengths\[1\] is 8; must be 0 to 7", (x, y), {"y_lengths": torch.tensor([7, 8])}),
            (ValueError, "points of x have 4097 columns; must have 1 to 4096", (wide, wide), {}),
        ):
            with self.assertRaisesRegex(error, pattern):
                nearest_distances(*arguments, **more)


class ChamferTest(SeededTest):
    def test_values_and_gradients_are_those_of_float64(self):
        for device, squared, reduction in itertools.product(DEVICES, (True, False), ("none", "mean", "sum")):
            with self.subTest(f"{device} squared={squared} reduction={reduction}"):
                x, y, arguments = make_sets(torch.float32, 3, ragged=True)
                results = []
                for function, dtype, where in (
                    (chamfer_distance, torch.float32, device),
                    (reference.chamfer_distance, torch.float64, "cpu"),
                ):
                    tensors = [points.detach().to(where, dtype).requires_grad_() for points in (x, y)]
                    lengths = {name: tensor.to(where) for name, tensor in arguments.items()}
                    value = function(*tensors, **lengths, squared=squared, reduction=reduction)
                    value.sum().backward()
                    results.append([value.detach().cpu(), *(tensor.grad.cpu() for tensor in tensors)])
                for found, expected in zip(*results):
                    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-6)

    def test_a_set_and_itself_have_no_distance(self):
        points = torch.randn(20, 3, requires_grad=True)
        for squared in (True, False):
            value = chamfer_distance(points, points.detach(), squared=squared)
            value.backward()
            self.assertEqual(value.item(), 0)
            self.assertEqual(points.grad.abs().sum().item(), 0)

    def test_known_values(self):
        x, y = torch.tensor([[0.0], [1.0]]), torch.tensor([[3.0]])
        # There: (9 + 4) / 2; back: 4.
        self.assertEqual(chamfer_distance(x, y).item(), 10.5)
        self.assertEqual(chamfer_distance(x, y, squared=False).item(), 4.5)
        self.assertEqual(chamfer_distance(x, y[:0]).item(), 0)

    def test_compiles_into_one_graph(self):
        x, y = torch.randn(2, 9, 3, requires_grad=True), torch.randn(2, 8, 3, requires_grad=True)
        results = []
        for function in (chamfer_distance, torch.compile(chamfer_distance, backend="aot_eager", fullgraph=True)):
            results.append(torch.autograd.grad(function(x, y), (x, y)))
        for eager, traced in zip(*results):
            torch.testing.assert_close(eager, traced)

    def test_an_unknown_reduction_is_refused(self):
        with self.assertRaisesRegex(ValueError, "reduction is 'max'"):
            chamfer_distance(torch.ones(1, 3), torch.ones(1, 3), reduction="max")


if __name__ == "__main__":
    print(f"MAXSIM_TEST_SEED={SEED}", flush=True)
    unittest.main(verbosity=2)
