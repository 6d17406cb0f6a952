"""The functions of triadic.h (kernels/library/include/maxsim/triadic.h) through ctypes."""

import ctypes
import typing

from .library import check, loaded_passes, size_from


class TriadicCall(ctypes.Structure):
    """The structure maxsim_triadic_call: a batch of three-way attentions."""

    _fields_: typing.ClassVar = [
        ("struct_size", ctypes.c_size_t),
        ("device", ctypes.c_int32),
        ("type", ctypes.c_int32),
        ("dim", ctypes.c_int32),
        ("index_type", ctypes.c_int32),
        ("num_problems", ctypes.c_int64),
        ("num_queries", ctypes.c_int64),
        ("max_first", ctypes.c_int64),
        ("max_second", ctypes.c_int64),
        ("queries", ctypes.c_void_p),
        ("first_keys", ctypes.c_void_p),
        ("second_keys", ctypes.c_void_p),
        ("first_values", ctypes.c_void_p),
        ("second_values", ctypes.c_void_p),
        ("first_lengths", ctypes.c_void_p),
        ("second_lengths", ctypes.c_void_p),
        ("scale", ctypes.c_float),
        ("num_threads", ctypes.c_int32),
        ("stream", ctypes.c_void_p),
        ("workspace", ctypes.c_void_p),
        ("workspace_bytes", ctypes.c_size_t),
    ]


class TriadicGradients(ctypes.Structure):
    """The structure maxsim_triadic_gradients: what maxsim_triadic_backward takes and writes."""

    _fields_: typing.ClassVar = [
        ("struct_size", ctypes.c_size_t),
        ("output", ctypes.c_void_p),
        ("lse", ctypes.c_void_p),
        ("output_gradients", ctypes.c_void_p),
        ("query_gradients", ctypes.c_void_p),
        ("first_key_gradients", ctypes.c_void_p),
        ("second_key_gradients", ctypes.c_void_p),
        ("first_value_gradients", ctypes.c_void_p),
        ("second_value_gradients", ctypes.c_void_p),
    ]


class TriadicMaxCall(ctypes.Structure):
    """The structure maxsim_triadic_max_call: a batch of three-way MaxSims."""

    _fields_: typing.ClassVar = [
        ("struct_size", ctypes.c_size_t),
        ("device", ctypes.c_int32),
        ("type", ctypes.c_int32),
        ("dim", ctypes.c_int32),
        ("index_type", ctypes.c_int32),
        ("num_problems", ctypes.c_int64),
        ("max_queries", ctypes.c_int64),
        ("max_first", ctypes.c_int64),
        ("max_second", ctypes.c_int64),
        ("queries", ctypes.c_void_p),
        ("first", ctypes.c_void_p),
        ("second", ctypes.c_void_p),
        ("query_lengths", ctypes.c_void_p),
        ("first_lengths", ctypes.c_void_p),
        ("second_lengths", ctypes.c_void_p),
        ("num_threads", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        ("stream", ctypes.c_void_p),
        ("workspace", ctypes.c_void_p),
        ("workspace_bytes", ctypes.c_size_t),
    ]


class TriadicMaxGradients(ctypes.Structure):
    """The structure maxsim_triadic_max_gradients: what maxsim_triadic_max_backward takes and writes."""

    _fields_: typing.ClassVar = [
        ("struct_size", ctypes.c_size_t),
        ("argmax", ctypes.c_void_p),
        ("maximum_gradients", ctypes.c_void_p),
        ("query_gradients", ctypes.c_void_p),
        ("first_gradients", ctypes.c_void_p),
        ("second_gradients", ctypes.c_void_p),
    ]


_FUNCTIONS = {
    TriadicCall: loaded_passes("maxsim_triadic", TriadicCall, TriadicGradients),
    TriadicMaxCall: loaded_passes("maxsim_triadic_max", TriadicMaxCall, TriadicMaxGradients),
}


def workspace_bytes(call: "TriadicCall | TriadicMaxCall", which: int) -> int:
    """The bytes of workspace that a pass (FORWARD or BACKWARD) needs."""
    return size_from(_FUNCTIONS[type(call)][0], ctypes.byref(call), which)


def forward(call: "TriadicCall | TriadicMaxCall", values: int, beside: int) -> None:
    """Calls maxsim_triadic (output, lse) or maxsim_triadic_max (maxima, argmax), which take addresses."""
    check(_FUNCTIONS[type(call)][1](ctypes.byref(call), values, beside))


def backward(call: "TriadicCall | TriadicMaxCall", gradients: "TriadicGradients | TriadicMaxGradients") -> None:
    """Calls maxsim_triadic_backward or maxsim_triadic_max_backward."""
    check(_FUNCTIONS[type(call)][2](ctypes.byref(call), ctypes.byref(gradients)))
