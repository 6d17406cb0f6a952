"""Finds out whether PyTorch traces, observes or differentiates the call of an operator."""

import contextlib
from typing import Any, Callable, Iterator, Optional

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter

# Other subclasses may override operators.
_CLASSES = frozenset((Tensor, Parameter))


class Dispatch:
    """Predicts what PyTorch's dispatcher would do, by private names of PyTorch. If a release lacks one, the constructor
    raises AttributeError. `dispatch` is then None, and all operators are made with custom_op."""

    def __init__(self) -> None:
        self._keys_of = torch._C._dispatch_keys
        self._number_of: "Callable[[Any], Any]" = getattr(torch._C.DispatchKeySet, "raw_repr", repr)
        self._is_excluded = torch._C._dispatch_tls_is_dispatch_key_excluded
        self._autograd = torch._C.DispatchKey.AutogradFunctionality
        self._modes = torch._C._len_torch_dispatch_stack
        self._function_modes = torch._C._len_torch_function_stack
        self._trace = torch._C._get_tracing_state
        self._is_profiled = torch.autograd._profiler_enabled  # type: ignore[attr-defined]
        self.in_transform = torch._C._are_functorch_transforms_active
        forward_ad._current_level  # noqa: B018
        self._plain = frozenset(self._plain_key_sets())

    def _plain_key_sets(self) -> "Iterator[Any]":
        """Yields the key sets of dense tensors on the devices that the library supports, each with the keys of autograd
        and, for tensors of inference mode, without them. Views of negated or conjugated values have other key sets."""
        keys, single = torch._C.DispatchKey, torch._C.DispatchKeySet
        for name in ("CPU", "CUDA"):
            bare = single(getattr(keys, name)) | single(getattr(keys, f"Autocast{name}"))
            yield self._number_of(bare)
            yield self._number_of(bare | single(keys.ADInplaceOrView) | single(getattr(keys, f"Autograd{name}")))

    def is_plain(self, tensor: Any) -> bool:
        """Returns true if the dispatcher passes the tensor from autograd directly to the device's kernel."""
        return tensor.__class__ in _CLASSES and self._number_of(self._keys_of(tensor)) in self._plain

    def is_traced(self) -> bool:
        """Returns true if tensors may be placeholders: in a compiler, a tracer, a dispatch mode or a transform."""
        return (
            torch.compiler.is_compiling() or self._modes() > 0 or self.in_transform() or self._trace() is not None
        )

    def is_watched(self) -> bool:
        """Returns true if PyTorch must see every operator: while tracing, in a function mode, with forward-mode
        derivatives, or with a profiler in this thread."""
        return (
            self.is_traced()
            or self._function_modes() > 0
            or forward_ad._current_level >= 0
            or self._is_profiled()
        )

    def differentiates(self) -> bool:
        """Returns true if autograd records operations. It does not under no_grad, in inference mode and in kernels
        below autograd."""
        return torch.is_grad_enabled() and not self._is_excluded(self._autograd)


class Transforms:
    """Detects the transforms of torch.func that differentiate. As in Dispatch, the constructor raises
    AttributeError if a release of PyTorch lacks a name."""

    def __init__(self) -> None:
        functorch: Any = torch._C._functorch
        self._stack = functorch.get_interpreter_stack
        self._is_wrapped = functorch.is_functorch_wrapped_tensor
        self._level_of = functorch.maybe_get_level
        self._unwrapped = functorch.get_unwrapped
        self._grad, self._jvp = functorch.TransformType.Grad, functorch.TransformType.Jvp

    def derivative(self, tensor: Tensor) -> str:
        """Returns "reverse" or "forward" if a transform differentiates with respect to the tensor in that mode, else
        ""."""
        kinds = {one.level(): one.key() for one in self._stack() or ()}
        top = max(kinds, default=0)
        while self._is_wrapped(tensor):
            level = self._level_of(tensor)
            kind = kinds.get(level)
            if kind == self._grad and tensor.requires_grad and torch.is_grad_enabled():
                return "reverse"
            # Only the tangent of the innermost transform can be read. A tensor of an outer transform mostly has a
            # tangent, so assume that it has one.
            if kind == self._jvp and (level != top or has_tangent(tensor)):
                return "forward"
            tensor = self._unwrapped(tensor)
        return ""


def has_tangent(tensor: Tensor) -> bool:
    return forward_ad.unpack_dual(tensor).tangent is not None  # type: ignore[no-untyped-call]


dispatch: Optional[Dispatch] = None
with contextlib.suppress(AttributeError):
    dispatch = Dispatch()
transforms: Optional[Transforms] = None
with contextlib.suppress(AttributeError):
    transforms = Transforms()


def hides_gradients() -> bool:
    """Returns true if a transform of torch.func is active. In a transform, a tensor may need a gradient although its
    requires_grad is false."""
    if torch.compiler.is_compiling() or not torch.is_grad_enabled():
        return False
    return dispatch is not None and dispatch.in_transform()


def wants_gradient(*tensors: Optional[Tensor]) -> bool:
    """Returns true if one of the tensors needs a gradient, or may need one although its requires_grad is false."""
    if torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors):
        return True
    return hides_gradients()


def can_read(tensor: Tensor) -> bool:
    """Returns true if a tensor's values may be read: the tensor is in CPU memory, and nothing traces the call."""
    if torch.compiler.is_compiling() or tensor.__class__ not in _CLASSES or tensor.device.type != "cpu":
        return False
    return dispatch is not None and not dispatch.is_traced()
