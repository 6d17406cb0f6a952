"""Operators that PyTorch traces, compiles and differentiates, and that cost little where it does none of that.

torch.library.custom_op goes through the dispatcher twice a call, and where gradients are wanted it describes every
argument anew, which takes longer than a small computation. An operator made here is one of those. Called from Python
where nothing wants to see the call, it is computed at once; otherwise the call goes the way of every operator.
"""

import inspect
from typing import Any, Callable, Optional, Tuple

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter

# PyTorch promises these names to nobody. Without them an operator is custom_op's alone.
_NAMES = (
    "DispatchKey",
    "DispatchKeySet",
    "_FunctionBase",
    "_are_functorch_transforms_active",
    "_dispatch_keys",
    "_get_tracing_state",
    "_len_torch_dispatch_stack",
    "_len_torch_function_stack",
)
_KNOWS_ITS_WAY = all(hasattr(torch._C, name) for name in _NAMES) and hasattr(torch._C.DispatchKeySet, "raw_repr")


def _plain_key_sets() -> "frozenset[int]":
    """The dispatcher's key sets of dense tensors on a device that the library computes on: with what autograd wants,
    and without, as tensors of inference mode are. Views of what is negative or conjugate have others."""
    keys, single = torch._C.DispatchKey, torch._C.DispatchKeySet
    found = set()
    for name in ("CPU", "CUDA"):
        bare = single(getattr(keys, name)) | single(getattr(keys, f"Autocast{name}"))
        found.add(bare.raw_repr())
        found.add((bare | single(keys.ADInplaceOrView) | single(getattr(keys, f"Autograd{name}"))).raw_repr())
    return frozenset(found)


_PLAIN = _plain_key_sets() if _KNOWS_ITS_WAY else frozenset()
# Other subclasses may have operators of their own.
_CLASSES = frozenset((Tensor, Parameter))


def _is_watched() -> bool:
    """Whether something wants to see every operator: a compiler, a tracer, a mode, a transform, forward-mode
    derivatives, a profiler."""
    return (
        torch.compiler.is_compiling()
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._len_torch_function_stack() > 0
        or torch._C._are_functorch_transforms_active()
        or torch._C._get_tracing_state() is not None
        or forward_ad._current_level >= 0
        or torch.autograd._profiler_enabled()
    )


class _Results:
    """What an operator's setup_context and backward are, without a gradient for results that have none: PyTorch would
    make zeros of the size of the matches. The first result is the one that is differentiated."""

    def __init__(self, differentiate: "Callable[..., Any]", save: "Callable[[Any, Any, Any], None]"):
        self._differentiate = differentiate
        self._save = save

    def save(self, ctx: Any, inputs: Any, output: Any) -> None:
        ctx.set_materialize_grads(False)
        first = output[0] if isinstance(output, tuple) else output
        ctx.like_first = (first.shape, first.dtype, first.device)
        self._save(ctx, inputs, output)

    def differentiate(self, ctx: Any, *gradients: Any) -> Any:
        if gradients[0] is None:
            shape, dtype, device = ctx.like_first
            gradients = (torch.zeros(shape, dtype=dtype, device=device), *gradients[1:])
        return self._differentiate(ctx, *gradients)


def _function(name: str, compute: "Callable[..., Any]", results: _Results) -> Any:
    """A torch.autograd.Function of an operator's inputs. Profiles know it by the name that custom_op gives."""

    def forward(ctx: Any, *inputs: Any) -> Any:
        output = compute(*inputs)
        results.save(ctx, inputs, output)
        return output

    members = {"forward": staticmethod(forward), "backward": staticmethod(results.differentiate)}
    return type(f"GeneratedBackwardFor_maxsim_torch_{name}_default", (torch.autograd.Function,), members)


class Operator:
    """An operator torch.ops.maxsim_torch.NAME, made of a function with annotations as torch.library.custom_op wants
    them, which writes none of its arguments and returns none of them. It has register_fake and register_autograd of
    custom_op's result."""

    def __init__(self, name: str, compute: "Callable[..., Any]"):
        self.compute = compute
        self._name = name
        self._definition = torch.library.custom_op(f"maxsim_torch::{name}", compute, mutates_args=())
        self._overload = getattr(torch.ops.maxsim_torch, name).default
        annotations = inspect.signature(compute).parameters.values()
        self._tensors = [idx for idx, one in enumerate(annotations) if one.annotation in (Tensor, Optional[Tensor])]
        self._differentiated = self._overload  # what computes the operator where gradients are wanted

    def __call__(self, *arguments: Any) -> Any:
        if not _KNOWS_ITS_WAY or _is_watched():
            return self._overload(*arguments)
        any_gradient = False
        for idx in self._tensors:
            argument = arguments[idx]
            if argument is None:
                continue
            if argument.__class__ not in _CLASSES or torch._C._dispatch_keys(argument).raw_repr() not in _PLAIN:
                return self._overload(*arguments)
            any_gradient = any_gradient or argument.requires_grad
        if any_gradient and torch.is_grad_enabled():
            return self._differentiated(*arguments)
        return self.compute(*arguments)

    def register_fake(self, fake: "Callable[..., Any]") -> "Callable[..., Any]":
        return self._definition.register_fake(fake)

    def register_autograd(
        self, differentiate: "Callable[..., Tuple[Any, ...]]", *, setup_context: "Callable[[Any, Any, Any], None]"
    ) -> None:
        results = _Results(differentiate, setup_context)
        self._definition.register_autograd(results.differentiate, setup_context=results.save)
        if _KNOWS_ITS_WAY:
            # Function.apply without its search for what transforms of torch.func left behind.
            function = _function(self._name, self.compute, results)
            self._differentiated = super(torch.autograd.Function, function).apply


def operator(name: str) -> "Callable[[Callable[..., Any]], Operator]":
    """Makes the operator torch.ops.maxsim_torch.NAME of the function below."""
    return lambda compute: Operator(name, compute)
