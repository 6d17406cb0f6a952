"""The functions of nearest.h (kernels/library/include/maxsim/nearest.h) through ctypes."""

import ctypes
import typing

from .library import check, loaded_passes, size_from


class NearestCall(ctypes.Structure):
    """The structure maxsim_nearest_call: a batch of pairs of sets of points."""

    _fields_: typing.ClassVar = [
        ("struct_size", ctypes.c_size_t),
        ("device", ctypes.c_int32),
        ("type", ctypes.c_int32),
        ("dim", ctypes.c_int32),
        ("index_type", ctypes.c_int32),
        ("num_sets", ctypes.c_int64),
        ("max_x", ctypes.c_int64),
        ("max_y", ctypes.c_int64),
        ("x", ctypes.c_void_p),
        ("y", ctypes.c_void_p),
        ("x_lengths", ctypes.c_void_p),
        ("y_lengths", ctypes.c_void_p),
        ("num_threads", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        ("stream", ctypes.c_void_p),
        ("workspace", ctypes.c_void_p),
        ("workspace_bytes", ctypes.c_size_t),
    ]


class NearestGradients(ctypes.Structure):
    """The structure maxsim_nearest_gradients: what maxsim_nearest_backward takes and writes."""

    _fields_: typing.ClassVar = [
        ("struct_size", ctypes.c_size_t),
        ("argmin", ctypes.c_void_p),
        ("distance_gradients", ctypes.c_void_p),
        ("x_gradients", ctypes.c_void_p),
        ("y_gradients", ctypes.c_void_p),
    ]


_workspace_bytes, _nearest, _nearest_backward = loaded_passes("maxsim_nearest", NearestCall, NearestGradients)


def workspace_bytes(call: NearestCall, which: int) -> int:
    """The bytes of workspace that a pass (FORWARD or BACKWARD) needs."""
    return size_from(_workspace_bytes, ctypes.byref(call), which)


def nearest(call: NearestCall, distances: int, argmin: int) -> None:
    """Calls maxsim_nearest; `distances` and `argmin` are addresses."""
    check(_nearest(ctypes.byref(call), distances, argmin))


def nearest_backward(call: NearestCall, gradients: NearestGradients) -> None:
    """Calls maxsim_nearest_backward."""
    check(_nearest_backward(ctypes.byref(call), ctypes.byref(gradients)))
