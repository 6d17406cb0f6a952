"""Reads arrays of any library through the DLPack protocol. Unlike NumPy's own reader, it accepts bfloat16."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

CPU_DEVICES = {1, 3, 11, 13}  # kDLCPU, kDLCUDAHost, kDLROCMHost, kDLCUDAManaged: memory that the CPU may read
_FLOAT, _BFLOAT = 2, 4  # DLDataTypeCode
_NUMPY_KINDS = {0: "i", 1: "u", 2: "f", 6: "b"}


class _Device(ctypes.Structure):
    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    """DLTensor, the first member of the DLManagedTensor in a capsule."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def device_type(array: Any) -> int:
    """Returns the DLDeviceType of an array, or the CPU's if the array does not report one."""
    return int(array.__dlpack_device__()[0]) if hasattr(array, "__dlpack_device__") else 1


def read(array: Any) -> tuple[npt.NDArray[Any], bool]:
    """Returns a copy of an array in the CPU's memory, and whether its elements are bfloat16; the copy then has their
    bits as uint16. ValueError: the array is on another device, or NumPy has no type for its elements."""
    if device_type(array) not in CPU_DEVICES:
        raise ValueError("is not in the CPU's memory")
    # The capsule is not marked as consumed, so its own destructor frees the tensor after this function has copied it.
    capsule = array.__dlpack__()
    tensor = ctypes.cast(_capsule_pointer(capsule, b"dltensor"), ctypes.POINTER(_Tensor)).contents
    kind, bits, lanes = tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes
    is_bfloat16 = (kind, bits, lanes) == (_BFLOAT, 16, 1)
    if not is_bfloat16 and (kind not in _NUMPY_KINDS or lanes != 1 or (kind == _FLOAT and bits not in (16, 32, 64))):
        raise ValueError(f"has elements of DLPack's type code {kind}, {bits} bits, {lanes} lanes")
    dtype = np.dtype(np.uint16) if is_bfloat16 else np.dtype(f"{_NUMPY_KINDS[kind]}{bits // 8}")
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    if 0 in shape:
        return np.zeros(shape, dtype), is_bfloat16
    if tensor.strides:
        strides = tuple(tensor.strides[i] * dtype.itemsize for i in range(tensor.ndim))
    else:
        strides = None  # row-major
    return _copy(tensor.data + tensor.byte_offset, shape, strides, dtype), is_bfloat16


def _copy(
    address: int, shape: tuple[int, ...], strides: tuple[int, ...] | None, dtype: np.dtype[Any]
) -> npt.NDArray[Any]:
    """Copies elements from memory into a new row-major array."""
    if strides is None:
        strides = tuple(int(np.prod(shape[i + 1 :])) * dtype.itemsize for i in range(len(shape)))
    first = sum((size - 1) * stride for size, stride in zip(shape, strides) if stride < 0)
    last = sum((size - 1) * stride for size, stride in zip(shape, strides) if stride > 0) + dtype.itemsize
    memory = (ctypes.c_char * (last - first)).from_address(address + first)
    return np.ndarray(shape, dtype, memoryview(memory).cast("B"), -first, strides).copy()
