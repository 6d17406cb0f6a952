"""Tests files that link to other files, never end, or are damaged: python hostile_files_test.py [PROGRAMS]"""

import os
import unittest

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.feather
from stores_fixture import DIM, ImportTest

TOKENS = np.ones((6, DIM), np.float16)
LENGTHS = np.array([2, 2, 2])


class HostileFilesTest(ImportTest):
    def setUp(self):
        super().setUp()
        np.save(self.folder / "tokens.npy", TOKENS)
        np.save(self.folder / "lengths.npy", LENGTHS)

    def test_values_of_hdf5_that_lie_in_other_files_are_refused(self):
        secret = self.folder / "secret"
        secret.write_bytes(bytes(6 * DIM * 2))
        with h5py.File(self.folder / "other.h5", "w") as file:
            file["tokens"] = TOKENS
        message = "tokens: its values lie in another file, which is not read"
        for kind in ("external storage", "external link", "virtual"):
            path = self.folder / "a.h5"
            with h5py.File(path, "w") as file:
                file["lengths"] = LENGTHS
                if kind == "external storage":
                    file.create_dataset("tokens", shape=TOKENS.shape, dtype="f2", external=[(str(secret), 0, 192)])
                elif kind == "external link":
                    file["tokens"] = h5py.ExternalLink(str(self.folder / "other.h5"), "/tokens")
                else:
                    layout = h5py.VirtualLayout(shape=TOKENS.shape, dtype="f2")
                    layout[:] = h5py.VirtualSource(str(self.folder / "other.h5"), "tokens", shape=TOKENS.shape)
                    file.create_virtual_dataset("tokens", layout)
            with self.subTest(kind):
                self.assert_refused("hdf5", path, message)

    def test_a_pipe_or_a_device_is_refused_and_not_waited_for(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        message = "is a pipe or a device; must be a regular file"
        for kind in ("npy", "npz", "hdf5", "parquet", "arrow", "vespa", "pt"):
            with self.subTest(kind):
                self.assert_refused(kind, pipe, message)
        for suffix in (".npy", ".npz", ".safetensors", ".pt"):
            os.mkfifo(f"{pipe}{suffix}")
            self.assert_refused("padded", f"{pipe}{suffix}", message)
        for path in (pipe, "/dev/zero"):
            self.assert_refused("npy", self.folder / "tokens.npy", message, ids=str(path))
        index = self.folder / "index"
        index.mkdir()
        os.mkfifo(index / "metadata.json")
        self.assert_refused("plaid", index, "metadata.json: " + message)
        self.assert_refused("colbert", index, "metadata.json: " + message)

    def test_a_pipe_in_a_folder_that_a_library_reads_is_refused_and_not_waited_for(self):
        message = "is a pipe or a device; must be a regular file"
        store = self.folder / "s.zarr"
        (store / "tokens").mkdir(parents=True)
        os.mkfifo(store / "tokens" / "0.0")
        self.assert_refused("zarr", store, "0.0: " + message)
        os.mkfifo(self.folder / "pipe.zarr")
        self.assert_refused("zarr", self.folder / "pipe.zarr", message)
        other = self.folder / "other.zarr"
        other.mkdir()
        (other / "again").symlink_to(other)
        (other / "group").symlink_to(store)
        (other / "nowhere").symlink_to(self.folder / "none")
        self.assert_refused("zarr", other, "0.0: " + message)

    def test_escape_characters_do_not_reach_the_terminal(self):
        path = self.folder / "a.feather"
        vectors = pa.array([[[1.0] * DIM]], pa.list_(pa.list_(pa.float32())))
        pyarrow.feather.write_feather(pa.table({"\x1b[31mz": ["x"], "\x1b]0;t\x07": [1]}), path)
        code, out, err = self.run_command("import", "--from", "arrow", path, "--dry-run", "--quiet")
        self.assertEqual((code, out), (1, ""))
        self.assertIn(r"\x1b[31mz", err)
        self.assertNotIn("\x1b", err)
        pyarrow.feather.write_feather(pa.table({"\x1b[31mz": ["x"], "v": vectors}), path)
        for columns in ((), ("--payload-columns", "*")):
            command = ("import", "--from", "arrow", path, "--dry-run", "--quiet", *columns)
            code, out, err = self.run_command(*command)
            self.assertEqual((code, err), (0, ""))
            self.assertIn(r"\x1b[31mz", out)
            self.assertNotIn("\x1b", out)

    def test_wrong_offsets_of_an_arrow_file_are_an_error(self):
        """With these wrong offsets, pyarrow would read memory outside of the file."""
        vectors = pa.array([[[1.0] * DIM]] * 3, pa.list_(pa.list_(pa.float32())))
        offsets = np.array([0x1234567, 0x1234577, 0x1234587, 0x1234597], np.int32)
        ids = pa.array(["a" * 16, "b" * 16, "c" * 16])
        path = self.folder / "a.feather"
        pyarrow.feather.write_feather(pa.table({"id": ids, "v": vectors}), path, compression="uncompressed")
        good = np.array([0, 16, 32, 48], np.int32).tobytes()
        data = path.read_bytes()
        for changed in (offsets, np.array([0, 2**30, 32, 48], np.int32), np.array([0, 32, 16, 48], np.int32)):
            path.write_bytes(data.replace(good, changed.tobytes()))
            with self.subTest(changed=changed.tolist()):
                self.assert_refused("arrow", path, r"a\.feather: is not a whole Arrow file or stream: ")


if __name__ == "__main__":
    unittest.main(verbosity=2)
