"""Reads arrays in .npy, .npz and safetensors files in blocks, without mapping them. Only one block is in memory at a
time."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import struct
import zipfile
import zlib
from typing import IO, Any, Callable, Dict, Iterator, Mapping, Optional, Tuple

import numpy as np

from maxsim.bfloat16 import widen_bfloat16
from maxsim.importers.readers.npy_header import NpyHeader, read_npy_header
from maxsim.importers.readers.opening import check_regular, open_regular
from maxsim.importers.readers.rows import block_rows
from maxsim.importers.source import SourceError
from maxsim.unique_json import parse_json

# The longest header of a safetensors file, in bytes.
_MAX_HEADER = 100_000_000
# One deflated byte represents at most 1,032 bytes.
_MAX_DEFLATION = 1032

_SAFETENSORS_TYPES = {
    "F16": "<f2",
    "F32": "<f4",
    "F64": "<f8",
    "I8": "i1",
    "I16": "<i2",
    "I32": "<i4",
    "I64": "<i8",
    "U8": "u1",
    "U16": "<u2",
    "U32": "<u4",
    "U64": "<u8",
    "BOOL": "?",
}


class FileRows:
    """An array in C order in a file. `open_data` opens the file at the position where the array's data begin."""

    def __init__(
        self, where: str, shape: Tuple[int, ...], dtype: np.dtype[Any], open_data: Callable[[], IO[bytes]]
    ) -> None:
        self.where = where
        self.shape = shape
        self.dtype = dtype
        self._open_data = open_data

    def blocks(self, rows_at_once: Optional[int] = None) -> Iterator[np.ndarray]:
        rows = rows_at_once or block_rows(self.shape, self.dtype)
        row_bytes = math.prod(self.shape[1:]) * self.dtype.itemsize
        with self._open_data() as file:
            for first in range(0, self.shape[0], rows):
                count = min(rows, self.shape[0] - first)
                # Each block has new memory, because documents are views of it.
                block = np.empty((count, *self.shape[1:]), self.dtype)
                if block.nbytes:
                    self._fill(file, block.reshape(-1).view(np.uint8).data, first * row_bytes)
                yield block

    def _fill(self, file: IO[bytes], target: memoryview, at: int) -> None:
        filled = 0
        while filled < len(target):
            with _archive_errors(self.where):
                count: int = file.readinto(target[filled:])  # type: ignore[attr-defined]
            if not count:
                wanted = math.prod(self.shape) * self.dtype.itemsize
                raise SourceError(
                    f"{self.where}: ends after {at + filled} bytes of its data, but {wanted} belong to its shape"
                )
            filled += count

    def read(self) -> np.ndarray:
        return next(self.blocks(self.shape[0]), np.empty(self.shape, self.dtype))


class Bfloat16Rows:
    """An array of bfloat16, read as float32."""

    def __init__(self, bits: FileRows) -> None:
        self._bits = bits
        self.where = bits.where
        self.shape = bits.shape
        self.dtype = np.dtype(np.float32)

    def blocks(self, rows_at_once: Optional[int] = None) -> Iterator[np.ndarray]:
        return map(widen_bfloat16, self._bits.blocks(rows_at_once))

    def read(self) -> np.ndarray:
        return widen_bfloat16(self._bits.read())


def _read_header(file: IO[bytes], where: str) -> NpyHeader:
    """Reads the header of an array that can be read in blocks of rows, and leaves `file` where the data begin."""
    header = read_npy_header(file, where)
    if header.dtype.hasobject:
        raise SourceError(f"{where}: is an array of Python objects, which pickle keeps; save numbers or strings")
    if header.is_fortran and len(header.shape) > 1:
        raise SourceError(f"{where}: is in Fortran order; save np.ascontiguousarray of it")
    return header


def _check_size(where: str, header: NpyHeader, num_bytes: int) -> None:
    if num_bytes < header.num_bytes:
        raise SourceError(
            f"{where}: has {num_bytes} bytes of data, but {header.num_bytes} belong to {header.dtype} "
            f"{list(header.shape)}"
        )


def open_npy(path: str) -> FileRows:
    """Opens the array of a .npy file."""

    def open_data() -> IO[bytes]:
        file = open_regular(path, "rb")
        try:
            _read_header(file, path)
        except BaseException:
            file.close()
            raise
        return file

    with open_regular(path, "rb") as file:
        header = _read_header(file, path)
        _check_size(path, header, os.fstat(file.fileno()).st_size - file.tell())
    return FileRows(path, header.shape, header.dtype, open_data)


@contextlib.contextmanager
def _archive_errors(where: str, what: str = "cannot be read") -> Iterator[None]:
    """Turns errors of reading an archive's member into one that names it. zipfile raises many kinds of exceptions."""
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, struct.error) as error:
        raise SourceError(f"{where}: {what}: {error or type(error).__name__}") from None


def open_npz(path: str) -> Mapping[str, FileRows]:
    """Opens the arrays of a .npz file. Members may be stored or deflated."""
    members: Dict[str, FileRows] = {}
    check_regular(path)
    with _archive_errors(path, "is not a .npz archive"):
        archive = zipfile.ZipFile(path)
    with archive:
        archive_bytes = os.path.getsize(path)
        for info in archive.infolist():
            where = f"{path}: {info.filename}"
            name = info.filename.removesuffix(".npy")
            if name in members:
                raise SourceError(f"{path}: holds the member {info.filename!r} twice")
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise SourceError(f"{where}: is compressed in a way that numpy.savez_compressed does not")
            with _archive_errors(where), archive.open(info) as member:
                header = _read_header(member, where)
                # Do not trust the archive's size of a member beyond what deflating can produce from all of the
                # archive's bytes.
                most = min(info.file_size, archive_bytes * _MAX_DEFLATION)
                _check_size(where, header, most - member.tell())
            open_data = functools.partial(_open_npz_member, path, info.filename)
            members[name] = FileRows(where, header.shape, header.dtype, open_data)
    return members


def _open_npz_member(path: str, name: str) -> IO[bytes]:
    with _archive_errors(f"{path}: {name}"):
        archive = zipfile.ZipFile(path)
        try:
            member = archive.open(name)
            _read_header(member, f"{path}: {name}")
        finally:
            # The member keeps the file open until the member is closed.
            archive.close()
    return member


def open_safetensors(path: str) -> Mapping[str, FileRows | Bfloat16Rows]:
    """Opens the tensors of a safetensors file. Leaves out those whose type NumPy lacks (F8)."""
    with open_regular(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        header_bytes = int.from_bytes(file.read(8), "little")
        if not 2 <= header_bytes <= min(_MAX_HEADER, size - 8):
            raise SourceError(f"{path}: is not a safetensors file: a header of {header_bytes} bytes in {size}")
        try:
            header = parse_json(file.read(header_bytes))
            header.pop("__metadata__", None)
            entries = {
                name: (entry["dtype"], tuple(map(int, entry["shape"])), *map(int, entry["data_offsets"]))
                for name, entry in header.items()
            }
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
            raise SourceError(f"{path}: is not a safetensors file: {error!r}") from None
    members: Dict[str, FileRows | Bfloat16Rows] = {}
    for name, (type_name, shape, begin, end) in entries.items():
        type_code = "<u2" if type_name == "BF16" else _SAFETENSORS_TYPES.get(type_name)
        if type_code is None:
            continue
        where = f"{path}: {name}"
        dtype = np.dtype(type_code)
        first = 8 + header_bytes + begin
        if (
            math.prod(shape) * dtype.itemsize != end - begin
            or begin < 0
            or min(shape, default=0) < 0
            or 8 + header_bytes + end > size
        ):
            raise SourceError(f"{where}: {type_name} {list(shape)} does not lie in bytes {begin} to {end} of the data")
        rows = FileRows(where, shape, dtype, functools.partial(_open_at, path, first))
        members[name] = Bfloat16Rows(rows) if type_name == "BF16" else rows
    return members


def _open_at(path: str, position: int) -> IO[bytes]:
    file = open_regular(path, "rb")
    file.seek(position)
    return file
