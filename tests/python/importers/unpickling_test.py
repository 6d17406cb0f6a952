"""Tests the reader of pickles and torch.save files. It must return the same values as the original libraries, and must
run no code of hostile files.

python unpickling_test.py PROGRAMS"""

import collections
import os
import pickle
import pickletools
import random
import struct
import unittest
import zipfile

import numpy as np
import torch

from stores_fixture import ImportTest

from maxsim.importers.source import SourceError
from maxsim.importers.readers.torch_files import Tensor, load_tensor, load_torch
from maxsim.importers.readers.pickles import load_object_array, load_pickle

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


class Calls:
    """An object whose pickle calls a function."""

    def __init__(self, function, *arguments):
        self.pickled = (function, arguments)

    def __reduce__(self):
        return self.pickled


class HasState:
    """An object whose pickle creates an object and sets the object's state."""

    def __setstate__(self, state):
        raise AssertionError("the state of an object has been set")


class ReadingTest(ImportTest):
    def assert_pickle_refused(self, data, message="", read=lambda data: load_pickle(data, "ids.pkl")):
        with self.assertRaisesRegex(SourceError, message) as caught:
            read(data)
        self.assertNotIn("\n", str(caught.exception))
        self.assertLess(len(str(caught.exception)), 500)
        return str(caught.exception)


class PickleTest(ReadingTest):
    def test_values_of_every_protocol(self):
        values = {
            "list": [1, 255, 256, 65536, -1, 2**31, -(2**70), 1.5, float("-inf"), True, False, None],
            "text": ["", "ü\n\\ \u20ac \U0001f600", "x" * 300],
            "bytes": [b"", b"\x00\xff", b"y" * 300],
            3: ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)),
            "sets": [set(), {1, "a"}, frozenset({2})],
            "ordered": collections.OrderedDict([("b", 1), ("a", 2)]),
        }
        values["again"] = values["list"]
        for protocol in PROTOCOLS:
            with self.subTest(protocol=protocol):
                self.assertEqual(load_pickle(pickle.dumps(values, protocol), "x"), values)

    def test_arrays_of_every_protocol(self):
        rng = np.random.default_rng(1)
        arrays = [rng.standard_normal((3, 4)).astype(dtype) for dtype in ("<f2", "<f4", ">f4", "<f8")]
        arrays += [
            np.asfortranarray(arrays[1]),
            np.arange(5, dtype=np.int64),
            np.array([True, False]),
            np.zeros((0, 7)),
        ]
        arrays += [np.array("text"), np.array(["a", "bc"])]
        for protocol in PROTOCOLS:
            with self.subTest(protocol=protocol):
                for found, wanted in zip(load_pickle(pickle.dumps(arrays, protocol), "x"), arrays, strict=True):
                    self.assertTrue(np.array_equal(found, wanted))
                    self.assertEqual(found.dtype, wanted.dtype)
                found = load_pickle(pickle.dumps([np.float32(1.5), np.int64(7)], protocol), "x")
                self.assertEqual(found, [1.5, 7])

    def test_arrays_of_objects(self):
        wanted = [np.ones((2, 3), np.float16), np.zeros((5, 3), np.float32)]
        objects = np.empty(2, dtype=object)
        objects[:] = wanted
        np.save(self.folder / "embeddings.npy", objects, allow_pickle=True)
        for found, array in zip(load_object_array(str(self.folder / "embeddings.npy")), wanted, strict=True):
            self.assertTrue(np.array_equal(found, array))
        np.save(self.folder / "plain.npy", np.zeros(3))
        self.assert_pickle_refused(str(self.folder / "plain.npy"), "must be a list of arrays", load_object_array)
        hostile = np.empty(1, dtype=object)
        hostile[0] = Calls(os.mkdir, str(self.folder / "made"))
        np.save(self.folder / "hostile.npy", hostile, allow_pickle=True)
        self.assert_pickle_refused(str(self.folder / "hostile.npy"), "mkdir", load_object_array)
        self.assertFalse((self.folder / "made").exists())


class HostilePickleTest(ReadingTest):
    def test_calls_are_refused_and_not_made(self):
        made = str(self.folder / "made")
        hostile = [
            Calls(os.system, f"touch {made}"),
            Calls(eval, f"__import__('os').mkdir({made!r})"),
            Calls(exec, f"import os; os.mkdir({made!r})"),
            Calls(os.mkdir, made),
            Calls(__import__, "os"),
            Calls(getattr, "text", "upper"),
            Calls(map, print, ["a"]),
            Calls(bytearray, 10**12),
            Calls(np.load, made),
            Calls(torch.load, made),
        ]
        for value in hostile:
            for protocol in PROTOCOLS:
                for inside in (value, [value], {"a": (value,)}, [1, {"b": [value]}]):
                    self.assert_pickle_refused(pickle.dumps(inside, protocol))
        self.assertFalse(os.path.exists(made))

    def test_the_call_is_named(self):
        message = self.assert_pickle_refused(pickle.dumps(Calls(os.system, "true")), "refused")
        self.assertRegex(message, r"^ids.pkl: is a pickle that calls (posix|nt).system, which is refused")

    def test_a_call_of_what_a_call_gives_is_refused(self):
        """The pickle gets os.system through getattr(__import__("os"), "system"), so it never names os.system as a
        whole."""
        # getattr(__import__("os"), "system")("true")
        chain = b"c__builtin__\ngetattr\n(c__builtin__\n__import__\n(S'os'\ntRS'system'\ntR(S'true'\ntR."
        self.assert_pickle_refused(chain, "__builtin__.__import__")
        # This pickle is refused because it calls os.system, and not because it names it.
        self.assert_pickle_refused(b"cos\nsystem\n(S'true'\ntR.", "calls os.system")

    def test_objects_are_not_made_and_get_no_state(self):
        for protocol in PROTOCOLS[2:]:
            self.assert_pickle_refused(pickle.dumps(HasState(), protocol))
        state = b"cbuiltins\nprint\n}S'x'\nI1\nsb."  # BUILD on a function
        self.assert_pickle_refused(state, "state of an object")
        self.assert_pickle_refused(b"(S'true'\nios\nsystem\n.", "pickle of objects .*: an object at byte 9")  # INST
        self.assert_pickle_refused(b"(cos\nsystem\nS'true'\no.", "pickle of objects .*: os.system at byte 20")  # OBJ
        made = (
            r"is a pickle of objects \(for instance a saved model\), of which only tensors, arrays, numbers, strings and "
            r"containers are read: os\.system at byte 14$"
        )
        self.assert_pickle_refused(b"\x80\x02cos\nsystem\n)\x81.", made)  # NEWOBJ
        self.assert_pickle_refused(b"\x80\x02\x82\x01.", "pickle of objects")  # EXT1
        # A file that begins so is none.
        self.assert_pickle_refused(b"index", "is not a pickle, or has an opcode that cannot be read: 0x69 at byte 0")

    def test_huge_sizes_take_no_memory(self):
        huge = struct.pack("<Q", 2**62)
        for data in (
            b"\x80\x04\x8d" + huge,  # BINUNICODE8
            b"\x80\x04\x8e" + huge,  # BINBYTES8
            b"\x80\x05\x96" + huge,  # BYTEARRAY8
            b"B" + struct.pack("<I", 2**32 - 1),
            b"X" + struct.pack("<I", 2**32 - 1),
            b"\x8b" + struct.pack("<i", 2**31 - 1) + b"\x01",  # LONG4
            b"]r" + struct.pack("<I", 2**32 - 2),  # LONG_BINPUT: a memo that is an array would grow to this index
            b"I" + b"9" * 5000 + b"\n.",
            b"L" + b"9" * 100_000 + b"L\n.",
        ):
            self.assert_pickle_refused(data)
        array = pickle.dumps(np.zeros(3), 2).replace(b"K\x03\x85", b"\x8a\x06\x00\x00\x00\x00\x00\x10\x85")
        self.assert_pickle_refused(array, "bytes are not those of its shape")

    def test_repetition_does_not_grow(self):
        """If each of these calls copied the list, the result would be a thousand times as large as the pickle."""
        data = b"(" + b"K\x01" * 200_000 + b"lp0\n" + b"cbuiltins\nset\n(g0\ntR" * 2_000 + b"."
        self.assert_pickle_refused(data, "grow to many times its size")

    def array_of_shape(self, shape):
        """Returns a pickle of an array without data. The opcodes `shape` put its shape on the stack."""
        call = b"cnumpy._core.numeric\n_frombuffer\n(C\x00cnumpy\ndtype\nX\x02\x00\x00\x00f4\x85R"
        return call + shape + b"X\x01\x00\x00\x00CtR."

    def test_errors_do_not_spell_out_shared_tuples(self):
        """Each tuple contains the previous tuple twice, 60 times over, so the last one has 2^60 items."""
        shared = b")q\x00" + b"h\x00h\x00\x86q\x00" * 60
        self.assert_pickle_refused(shared + b"0" * 60 + self.array_of_shape(b"h\x00"), r"array of shape \(a tuple of 2")
        self.assert_pickle_refused(shared + b"cnumpy\ndtype\nh\x00\x85R.", "array of type")

    def test_shapes_of_large_integers_take_no_time(self):
        large = b"\x8a\xff" + b"\xff" * 254 + b"\x7f"
        self.assert_pickle_refused(self.array_of_shape(b"(" + large + b"q\x00" + b"h\x00" * 100_000 + b"t"), "shape")
        self.assert_pickle_refused(self.array_of_shape(b"(" + b"K\x02" * 33 + b"t"), "shape")

    def test_integers_of_one_hash_are_no_keys(self):
        modulus = 2**61 - 1
        for key in (modulus * 2**4, -(2**63) - 1):
            self.assert_pickle_refused(pickle.dumps({key: None}), "64-bit integer")
            self.assert_pickle_refused(pickle.dumps({key}, 4), "64-bit integer")
        self.assertEqual(load_pickle(pickle.dumps({2**64 - 1: 0, -(2**63): 1}), "x"), {2**64 - 1: 0, -(2**63): 1})

    def test_nesting_does_not_overflow_the_stack(self):
        self.assert_pickle_refused(b"(" * 100_000 + b"t" * 100_000 + b".", "deep")
        deep_key = b"}" + b"N" + b"\x85" * 100_000 + b"Ns."  # hash() of it would recurse
        self.assert_pickle_refused(deep_key, "key of type tuple")

    def test_cut_and_changed_pickles_are_refused_or_read(self):
        """For random changes of a pickle, the reader must return a result or raise SourceError, and call no function of
        the pickle."""
        seed = 20260101
        rng = random.Random(seed)
        data = pickle.dumps({"a": [np.arange(4.0), "text", 2**70, {1, 2}], 5: Calls(os.mkdir, "never")}, 4)
        for end in range(len(data)):
            self.assert_pickle_refused(data[:end])
        opcodes = [ord(opcode.code) for opcode in pickletools.opcodes]
        for _ in range(3000):
            changed = bytearray(data)
            for _ in range(rng.randint(1, 4)):
                changed[rng.randrange(len(changed))] = rng.choice(opcodes) if rng.random() < 0.5 else rng.randrange(256)
            try:
                load_pickle(bytes(changed), "x")
            except SourceError:
                pass
            except Exception as error:
                self.fail(f"seed {seed}: {error!r} of {bytes(changed)!r}")
        self.assertFalse(os.path.exists("never"))


class TorchFileTest(ReadingTest):
    def values(self):
        torch.manual_seed(1)
        base = torch.randn(100, 16)
        return {
            "f32": torch.randn(3, 4),
            "bf16": torch.randn(5, 4).bfloat16(),
            "f16": torch.randn(2, 2).half(),
            "f64": torch.randn(2, 2).double(),
            "i32": torch.arange(5, dtype=torch.int32),
            "u8": torch.tensor([1, 255], dtype=torch.uint8),
            "bool": torch.tensor([True, False]),
            "part": base[10:20, ::2],
            "part again": base[10:12],
            "turned": base.t()[:, 3:5],
            "turned bf16": base.bfloat16().t()[1:4, 3:50:7],
            "empty": torch.zeros(0, 7),
            "scalar": torch.tensor(3.5),
            "parameter": torch.nn.Parameter(torch.ones(2, 2)),
        }

    def test_tensors_are_those_that_torch_reads(self):
        path = self.folder / "x.pt"
        values = self.values()
        for zipped in (True, False):
            for protocol in (2, 3, 4, 5):
                with self.subTest(zipped=zipped, protocol=protocol):
                    torch.save(values, path, _use_new_zipfile_serialization=zipped, pickle_protocol=protocol)
                    found = load_torch(path)
                    self.assertEqual(list(found), list(values))
                    for name, tensor in values.items():
                        wanted = tensor.detach()
                        wanted = (wanted.float() if wanted.dtype == torch.bfloat16 else wanted).numpy()
                        array = found[name].array()
                        self.assertEqual((array.shape, array.dtype), (wanted.shape, wanted.dtype), name)
                        self.assertTrue(np.array_equal(array, wanted), name)
                    self.assertEqual(found["bf16"].dtype, "bf16")
                    self.assertEqual(found["turned bf16"].dtype, "bf16")

    def test_a_tensor_alone_is_checked(self):
        path = self.folder / "x.pt"
        torch.save(torch.arange(6, dtype=torch.int32), path)
        self.assertEqual(load_tensor(path, 1, ("i32",)).array().tolist(), [0, 1, 2, 3, 4, 5])
        self.assert_pickle_refused(
            path, r"holds a tensor \[6\] of i32; must hold a tensor of 2", lambda p: load_tensor(p, 2)
        )
        torch.save([1], path)
        self.assert_pickle_refused(path, "holds list", lambda p: load_tensor(p, 1))

    def test_hostile_files_run_nothing(self):
        path, made = self.folder / "x.pt", self.folder / "made"
        for zipped in (True, False):
            for value in (Calls(os.mkdir, str(made)), [torch.zeros(2), Calls(os.system, f"touch {made}")]):
                torch.save(value, path, _use_new_zipfile_serialization=zipped)
                self.assert_pickle_refused(path, "refused", load_torch)
            torch.save(torch.nn.Linear(2, 2), path, _use_new_zipfile_serialization=zipped)
            self.assert_pickle_refused(path, "x.pt: ", load_torch)
        self.assertFalse(made.exists())

    def rewrite(self, path, change):
        """Writes the archive `path` again, with a changed pickle."""
        with zipfile.ZipFile(path) as archive:
            members = {info.filename: archive.read(info) for info in archive.infolist()}
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in members.items():
                archive.writestr(name, change(data) if name.endswith("data.pkl") else data)

    def test_tensors_outside_of_their_storage_are_refused(self):
        path = self.folder / "x.pt"
        for before, after in (
            (b"K\x03K\x04\x86", b"K\x03K\x05\x86"),  # another shape
            (b"K\x04K\x01\x86", b"K\x05K\x01\x86"),  # other strides
            (b"QK\x00", b"QK\x01"),  # another offset
            (b"K\x03K\x04\x86", b"K\xffK\xff\x86"),
        ):
            torch.save(torch.randn(3, 4), path)
            with zipfile.ZipFile(path) as archive:
                pickled = archive.read("x/data.pkl")
            self.assertEqual(pickled.count(before), 1)
            self.rewrite(path, lambda data, before=before, after=after: data.replace(before, after))
            self.assert_pickle_refused(path, "in a storage of 12 elements", load_torch)
        torch.save(torch.zeros(1, 1).expand(1000, 1000), path)
        self.assert_pickle_refused(path, "in a storage of 1 elements", load_torch)

    def test_a_list_of_storages_that_is_nested_is_refused(self):
        path = self.folder / "x.pt"
        heads = (
            pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(1001, 2) + pickle.dumps({"little_endian": True}, 2)
        )
        path.write_bytes(heads + b"N." + b"]" * 200_000 + b"a" * 199_999 + b".")
        self.assert_pickle_refused(path, "list of storages", load_torch)

    def test_strides_that_are_not_used_may_be_anything(self):
        path = self.folder / "x.pt"
        torch.save(torch.arange(8.0).reshape(1, 8), path)
        for stride, is_read in ((2**62, True), (2**70, False)):
            strides = pickle.dumps(stride, 2)[2:-1] + b"K\x01\x86"
            self.rewrite(path, lambda data, strides=strides: data.replace(b"K\x08K\x01\x86q", strides + b"q", 1))
            if is_read:
                self.assertEqual(load_torch(path).array().tolist(), [list(range(8))])
                torch.save(torch.arange(8.0).reshape(1, 8), path)
            else:
                self.assert_pickle_refused(path, "strides", load_torch)

    def test_damaged_files_are_refused(self):
        path = self.folder / "x.pt"
        for zipped in (True, False):
            torch.save([torch.randn(30, 4)], path, _use_new_zipfile_serialization=zipped)
            data = path.read_bytes()
            for end in (0, 1, 4, 30, 100, len(data) // 2, len(data) - 1):
                path.write_bytes(data[:end])
                self.assert_pickle_refused(path, "x.pt: ", load_torch)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("x/data.pkl", pickle.dumps([0] * 100))
        self.assert_pickle_refused(path, "compressed", load_torch)
        path.write_bytes(pickle.dumps([1, 2, 3]))
        self.assert_pickle_refused(path, "x.pt: ", load_torch)

    def test_reading_a_part_of_a_large_file_takes_little_memory(self):
        path = self.folder / "x.pt"
        torch.save([torch.zeros(1000, 1000) for _ in range(64)], path)
        tensors = load_torch(path)
        self.assertEqual(len(tensors), 64)
        self.assertTrue(all(isinstance(tensor, Tensor) for tensor in tensors))
        self.assertFalse(tensors[63].array().flags.owndata)
        self.assertFalse(tensors[63].array().flags.writeable)


if __name__ == "__main__":
    unittest.main(verbosity=2)
