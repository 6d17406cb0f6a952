"""Reads files of torch.save without torch, and without running code from them (unpickling.py).

Reads both formats: the zip archive of torch 1.6 and later, whose members are a pickle and one file per storage, and
the legacy format, which is a sequence of pickles followed by the storages. The file is mapped into memory, and a
tensor's elements are read only when they are needed."""

from __future__ import annotations

import dataclasses
import mmap
import os
import struct
import zipfile
from typing import Callable, Dict, Mapping, Tuple, Union

import numpy as np

from maxsim.bfloat16 import widen_bfloat16
from maxsim.importers.readers.describing import describe
from maxsim.importers.readers.opening import open_regular
from maxsim.importers.readers.pickled_values import Global, Maker
from maxsim.importers.source import SourceError
from maxsim.importers.readers.unpickling import Unpickler

_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
_LEGACY_PROTOCOL = 1001
_ZIP_MAGIC = b"PK\x03\x04"
_LOCAL_HEADER = struct.Struct("<4s5H3L2H")

# NumPy has no bfloat16: its elements are read as 16-bit integers, which are the upper halves of float32.
_BF16 = "bf16"
_NUMPY_TYPES: Mapping[str, "np.dtype[np.generic]"] = {
    "Float": np.dtype("<f4"),
    "Half": np.dtype("<f2"),
    "BFloat16": np.dtype("<u2"),
    "Double": np.dtype("<f8"),
    "Byte": np.dtype("u1"),
    "Char": np.dtype("i1"),
    "Short": np.dtype("<i2"),
    "Int": np.dtype("<i4"),
    "Long": np.dtype("<i8"),
    "Bool": np.dtype("?"),
}


@dataclasses.dataclass(frozen=True)
class _Storage:
    """Elements that follow one another in the file. read() returns them as one row."""

    kind: str
    num_elements: int
    read: Callable[[], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Tensor:
    """A tensor of a mapped file. array() reads its elements."""

    shape: Tuple[int, ...]
    _storage: _Storage
    _offset: int
    _strides: Tuple[int, ...]
    # If True, the elements are the stored ones with the opposite sign. torch sets this flag on a view such as
    # x.conj().imag instead of copying.
    _is_negated: bool = False

    @property
    def dtype(self) -> str:
        """f32, f16, bf16, f64, u8, i8, i16, i32, i64 or bool."""
        if self._storage.kind == "BFloat16":
            return _BF16
        dtype = _NUMPY_TYPES[self._storage.kind]
        return "bool" if dtype.kind == "b" else f"{dtype.kind}{8 * dtype.itemsize}"

    def array(self) -> np.ndarray:
        """Returns the elements. They are in the mapped file and must not be written to, except for bf16, which is
        converted to float32."""
        elements = self._storage.read()[self._offset :]
        strides = tuple(stride * elements.itemsize for stride in self._strides)
        array = np.lib.stride_tricks.as_strided(elements, self.shape, strides, writeable=False)
        if self._storage.kind == "BFloat16":
            array = widen_bfloat16(array)
        return np.negative(array) if self._is_negated else array

    def rows(self, first: int, end: int) -> Tensor:
        """The part [first:end] along the first dimension."""
        offset = self._offset + first * self._strides[0]
        return dataclasses.replace(self, shape=(end - first, *self.shape[1:]), _offset=offset)


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _rebuild_tensor(arguments: Tuple[object, ...]) -> object:
    if len(arguments) < 4 or not isinstance(arguments[0], _Storage):
        raise SourceError("has a tensor that is not read")
    storage, offset, shape, strides = arguments[:4]
    assert isinstance(storage, _Storage)
    if not _is_size(offset) or not isinstance(shape, tuple) or not isinstance(strides, tuple):
        raise SourceError("has a tensor that is not read")
    if len(shape) != len(strides) or len(shape) > 8 or not all(map(_is_size, shape + strides)):
        raise SourceError(f"has a tensor of shape {describe(shape)} and strides {describe(strides)}")
    assert isinstance(offset, int)
    count = 1
    last = offset
    for size, stride in zip(shape, strides):
        count *= size
        last += (size - 1) * stride
    if count and (last >= storage.num_elements or count > storage.num_elements):
        raise SourceError(f"has a tensor of shape {list(shape)} in a storage of {storage.num_elements} elements")
    # The stride of a dimension of size 1, or of a tensor without elements, is never used and may be of any size.
    strides = tuple(stride if count and size > 1 else 0 for size, stride in zip(shape, strides))
    return Tensor(shape, storage, offset if count else 0, strides, _read_negated(arguments))


def _read_negated(arguments: Tuple[object, ...]) -> bool:
    """Returns True if the flags of a tensor, its seventh argument, say that its elements have the opposite sign."""
    flags = arguments[6] if len(arguments) > 6 else None
    if flags is None:
        return False
    if not isinstance(flags, dict) or not set(flags) <= {"neg", "conj"} or flags.get("conj"):
        raise SourceError(f"has a tensor with the flags {describe(flags)}, which are not read")
    return bool(flags.get("neg"))


def _rebuild_parameter(arguments: Tuple[object, ...]) -> object:
    if not arguments or not isinstance(arguments[0], Tensor):
        raise SourceError("has a parameter that cannot be read")
    return arguments[0]


def _size(arguments: Tuple[object, ...]) -> object:
    if len(arguments) != 1 or not isinstance(arguments[0], tuple):
        raise SourceError("has a size that cannot be read")
    return arguments[0]


_MAKERS: Mapping[Tuple[str, str], Maker] = {
    ("torch._utils", "_rebuild_tensor"): _rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
    ("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
    ("torch", "Size"): _size,
}


def _storage_kind(named: object) -> str:
    """Returns the kind in a class name: `Float` for torch.FloatStorage."""
    if isinstance(named, Global) and named.module == "torch" and named.name.endswith("Storage"):
        kind = named.name[: -len("Storage")]
        if kind in _NUMPY_TYPES:
            return kind
    raise SourceError(
        f"has a storage of type {str(named)[:100] if isinstance(named, Global) else describe(named)}, which is not read"
    )


def _map_file(path: str) -> memoryview:
    with open_regular(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise SourceError("is empty")
        # The mapping lives as long as any view of it.
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _member(data: memoryview, info: zipfile.ZipInfo) -> memoryview:
    """Returns the bytes of a member of the archive. torch does not compress members."""
    if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
        raise SourceError(f"its member {info.filename!r} is compressed or encrypted, which torch.save does not do")
    header = data[info.header_offset : info.header_offset + _LOCAL_HEADER.size]
    if len(header) != _LOCAL_HEADER.size:
        raise SourceError(f"its member {info.filename!r} lies outside of it")
    fields = _LOCAL_HEADER.unpack(header)
    begin = info.header_offset + _LOCAL_HEADER.size + int(fields[9]) + int(fields[10])
    member = data[begin : begin + info.file_size]
    if fields[0] != b"PK\x03\x04" or len(member) != info.file_size:
        raise SourceError(f"its member {info.filename!r} lies outside of it")
    return member


def _load_zip(path: str, data: memoryview) -> object:
    try:
        with zipfile.ZipFile(path) as archive:
            members = {info.filename: info for info in archive.infolist()}
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError) as error:
        raise SourceError(f"is not a file written by torch.save: {error}") from None
    pickles = [name for name in members if name.endswith("/data.pkl") and name.count("/") == 1]
    if len(pickles) != 1:
        raise SourceError("is not a file written by torch.save: it has no member data.pkl")
    prefix = pickles[0][: -len("data.pkl")]
    order = members.get(prefix + "byteorder")
    if order is not None and bytes(_member(data, order)[:16]) != b"little":
        raise SourceError("is not in little-endian byte order")

    def persistent_load(identity: object) -> object:
        kind, key, num_elements = _storage_identity(identity)
        info = members.get(f"{prefix}data/{key}")
        if info is None:
            raise SourceError(f"has no storage {key[:40]!r}")
        member = _member(data, info)
        dtype = _NUMPY_TYPES[kind]
        if num_elements * dtype.itemsize > len(member):
            raise SourceError(
                f"its storage {key[:40]!r} has {len(member)} bytes; must have {num_elements * dtype.itemsize}"
            )
        return _Storage(kind, num_elements, lambda: np.frombuffer(member, dtype, num_elements))

    return Unpickler(_member(data, members[pickles[0]]), 0, _MAKERS, persistent_load).load()


def _storage_identity(identity: object) -> Tuple[str, str, int]:
    """Returns type, key and number of elements from ('storage', type, key, location, number of elements, ...)."""
    if not isinstance(identity, tuple) or len(identity) < 5 or identity[0] != "storage":
        raise SourceError("refers to data that is not a storage")
    if not isinstance(identity[2], str) or not _is_size(identity[4]):
        raise SourceError("refers to a storage that cannot be read")
    return _storage_kind(identity[1]), identity[2], identity[4]


def _load_legacy(data: memoryview) -> object:
    position = 0
    heads = []
    for _ in range(3):
        unpickler = Unpickler(data, position)
        heads.append(unpickler.load())
        position = unpickler.position
    if heads[:2] != [_LEGACY_MAGIC, _LEGACY_PROTOCOL] or not isinstance(heads[2], dict):
        raise SourceError("is not a file written by torch.save")
    if heads[2].get("little_endian") is not True:
        raise SourceError("is not in little-endian byte order")
    begins: Dict[str, int] = {}
    sizes: Dict[str, Tuple[str, int]] = {}

    def persistent_load(identity: object) -> object:
        kind, key, num_elements = _storage_identity(identity)
        if isinstance(identity, tuple) and len(identity) > 5 and identity[5] is not None:
            raise SourceError("has a storage that is a part of another one, which is not read")
        if sizes.setdefault(key, (kind, num_elements)) != (kind, num_elements):
            raise SourceError(f"names its storage {key[:40]!r} in two ways")
        # The storage's position is known only after the whole file has been scanned.
        return _Storage(kind, num_elements, lambda: np.frombuffer(data, _NUMPY_TYPES[kind], num_elements, begins[key]))

    unpickler = Unpickler(data, position, _MAKERS, persistent_load)
    value = unpickler.load()
    unpickler = Unpickler(data, unpickler.position)
    keys = unpickler.load()
    position = unpickler.position
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys) or sorted(keys) != sorted(sizes):
        raise SourceError("its list of storages is not that of its tensors")
    for key in keys:
        kind, num_elements = sizes[key]
        end = position + 8 + num_elements * _NUMPY_TYPES[kind].itemsize
        if end > len(data) or int.from_bytes(data[position : position + 8], "little") != num_elements:
            raise SourceError(f"its storage {key[:40]!r} is cut off or has another size than its tensors say")
        begins[key] = position + 8
        position = end
    return value


def is_torch_file(path: str) -> bool:
    """Returns True if a file begins like a file of torch.save that was written with the usual pickle protocols."""
    with open_regular(path, "rb") as file:
        head = file.read(64)
    return head.startswith(_ZIP_MAGIC) or _LEGACY_MAGIC.to_bytes(10, "little") in head


def load_torch(path: Union[str, "os.PathLike[str]"]) -> object:
    """Returns the value that torch.save wrote into the file `path`, with a Tensor for each tensor. SourceError names
    the file."""
    path = os.fspath(path)
    try:
        data = _map_file(path)
        if bytes(data[:4]) == _ZIP_MAGIC:
            return _load_zip(path, data)
        return _load_legacy(data)
    except SourceError as error:
        raise SourceError(f"{path}: {error}") from None


def load_tensor(path: Union[str, "os.PathLike[str]"], dimensions: int, dtypes: Tuple[str, ...] = ()) -> Tensor:
    """Returns the tensor that is the value of the file `path`. SourceError: it has another number of dimensions or
    another type."""
    value = load_torch(path)
    if not isinstance(value, Tensor) or len(value.shape) != dimensions or (dtypes and value.dtype not in dtypes):
        found = f"a tensor {list(value.shape)} of {value.dtype}" if isinstance(value, Tensor) else type(value).__name__
        wanted = f"a tensor of {dimensions} dimensions" + (f" of {' or '.join(dtypes)}" if dtypes else "")
        raise SourceError(f"{os.fspath(path)}: holds {found}; must hold {wanted}")
    return value
