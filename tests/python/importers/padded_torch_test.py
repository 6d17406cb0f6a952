"""Tests imports of padded arrays that were written by torch.save.

python padded_torch_test.py [PROGRAMS]
"""

import unittest

import numpy as np
import torch

from stores_fixture import ImportTest, random_documents

COUNT = 30
LONGEST = 42


class PaddedTorchTest(ImportTest):
    def setUp(self):
        super().setUp()
        self.documents = random_documents(COUNT)
        self.path = self.folder / "a.pt"

    def padded(self, dtype):
        array = torch.full((COUNT, LONGEST, self.documents[0].shape[1]), 7777.0, dtype=dtype)
        mask = torch.zeros((COUNT, LONGEST), dtype=torch.bool)
        for row, document in enumerate(self.documents):
            array[row, : len(document)] = torch.from_numpy(document).to(dtype)
            mask[row, : len(document)] = True
        return array, mask

    def test_a_dictionary_with_a_mask_or_lengths_in_every_type(self):
        for dtype in (torch.float16, torch.float32, torch.float64, torch.bfloat16):
            array, mask = self.padded(dtype)
            # The importer must return the values as the tensor's type (such as bfloat16) has rounded them.
            wanted = [row[kept].to(torch.float32).numpy() for row, kept in zip(array, mask)]
            for counts in ({"attention_mask": mask.long()}, {"mask": mask}, {"lengths": mask.sum(1)}):
                torch.save({"embeddings": array, "ids": torch.arange(COUNT) + 5, **counts}, self.path)
                with self.subTest(dtype=str(dtype), counts=list(counts)):
                    self.assert_source("padded", self.path, range(5, COUNT + 5), wanted)
        self.assert_imports("padded", self.path, range(5, COUNT + 5), wanted)

    def test_a_tensor_alone_with_a_file_of_lengths_and_other_strides(self):
        array, mask = self.padded(torch.float32)
        np.save(self.folder / "lengths.npy", mask.sum(1).numpy())
        for tensor in (array, array.transpose(0, 1).contiguous().transpose(0, 1), array[::2]):
            torch.save(tensor, self.path)
            documents = self.documents[:: COUNT // len(tensor)]
            counts = self.folder / f"{len(tensor)}.npy"
            np.save(counts, [len(document) for document in documents])
            self.assert_source("padded", self.path, range(len(tensor)), documents, lengths=str(counts))
        self.assert_refused("padded", self.path, r"is padded \[15, 42, 16\]; give --mask or --lengths")

    def test_a_hostile_pickle_is_refused_and_runs_nothing(self):
        victim = self.folder / "victim"

        class Hostile:
            def __reduce__(self):
                return (open, (str(victim), "w"))

        torch.save({"vectors": self.padded(torch.float32)[0], "mask": Hostile()}, self.path)
        self.assert_refused("padded", self.path, "io.open")
        self.assertFalse(victim.exists())

    def test_what_is_no_padded_array_is_refused(self):
        torch.save([torch.zeros(3, 4)], self.path)
        self.assert_refused("padded", self.path, "holds a list; must hold a tensor or a dictionary of tensors")
        torch.save({"x": torch.zeros(3, 4)}, self.path)
        self.assert_refused("padded", self.path, r"has 0 arrays \[N, L, dim\]")


if __name__ == "__main__":
    unittest.main(verbosity=2)
