"""The common parts of pylate_patch and colpali_patch: they replace functions of another package in all of its loaded
modules, and decide which calls maxsim_torch can take over."""

import functools
import sys
import types
from typing import Any, Callable, Iterator

import torch
from torch import Tensor

from .checks import MAX_COLUMNS, MAX_DOCUMENT_TOKENS, MAX_QUERY_TOKENS
from .library import device_available
from .tokens import FLOATS

Function = Callable[..., Any]


@functools.lru_cache(maxsize=None)
def _has_device(device: str) -> bool:
    return device in ("cpu", "cuda") and device_available(device)


def computable(queries: Tensor, documents: Tensor) -> bool:
    """Returns true if maxsim_scores takes queries [..., Lq, d] and documents [..., Ld, d] of these types, sizes and
    devices."""
    return (
        queries.dtype == documents.dtype
        and queries.dtype in FLOATS
        and queries.device == documents.device
        and _has_device(queries.device.type)
        and queries.shape[-1] == documents.shape[-1] <= MAX_COLUMNS
        and queries.shape[-2] <= MAX_QUERY_TOKENS
        and documents.shape[-2] <= MAX_DOCUMENT_TOKENS
        and queries.numel() > 0
        and documents.numel() > 0
    )


def in_the_type_of_products(tokens: Tensor) -> Tensor:
    """Returns `tokens` in the type in which torch.einsum would multiply them: autocast's type if autocast is on,
    otherwise their own."""
    kind = tokens.device.type
    if tokens.dtype in FLOATS and torch.is_autocast_enabled(kind):
        return tokens.to(torch.get_autocast_dtype(kind))
    return tokens


def _modules(package: str) -> "Iterator[types.ModuleType]":
    """The loaded modules of a package."""
    for name, module in list(sys.modules.items()):
        if isinstance(module, types.ModuleType) and (name == package or name.startswith(package + ".")):
            yield module


def _functions(module: types.ModuleType) -> "Iterator[types.FunctionType]":
    """Yields the functions of a module and those of its classes."""
    for value in list(vars(module).values()):
        if isinstance(value, types.FunctionType):
            yield value
        elif isinstance(value, type) and value.__module__ == module.__name__:
            yield from (method for method in vars(value).values() if isinstance(method, types.FunctionType))


def replace(package: str, name: str, old: Function, new: Function) -> None:
    """Replaces `old` by `new` in each loaded module of `package` that has it under the name `name`. Also replaces it
    where it is the default of an argument of these modules' functions or methods. Not thread-safe."""
    for module in _modules(package):
        if vars(module).get(name) is old:
            setattr(module, name, new)
        for function in _functions(module):
            if any(value is old for value in function.__defaults__ or ()):
                function.__defaults__ = tuple(new if value is old else value for value in function.__defaults__ or ())
