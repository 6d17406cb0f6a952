"""Tests that CollectionWriter writes torch's tensors in the same way as NumPy's arrays.

python torch_test.py
"""

import numpy as np
import torch

from collection_fixture import TemporaryFolderTest, main


class TorchTest(TemporaryFolderTest):
    def test_tensors_of_every_type(self):
        rng = np.random.default_rng(1)
        rows = [rng.standard_normal((size, 16)).astype(np.float32) for size in (3, 1, 40)]
        for storage in ("f32", "f16", "bf16", "i8"):
            for dtype in (torch.float16, torch.bfloat16, torch.float32):
                tensors = [torch.tensor(row, requires_grad=True).to(dtype) for row in rows]
                arrays = [tensor.detach().float().numpy() for tensor in tensors]
                name = f"{storage}-{dtype}"
                self.write(enumerate(tensors), self.folder / f"{name}-torch", 16, storage=storage, name="x")
                self.write(enumerate(arrays), self.folder / f"{name}-numpy", 16, storage=storage, name="x")
                self.assert_same_files(self.folder / f"{name}-torch", self.folder / f"{name}-numpy")
        self.assertEqual(self.write([(1, tensors[0].bfloat16())], self.folder / "default", 16).storage, "bf16")


if __name__ == "__main__":
    main()
