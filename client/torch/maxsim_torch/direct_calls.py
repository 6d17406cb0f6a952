"""Operators that PyTorch traces, compiles and differentiates, and that cost little where it does none of that.

torch.library.custom_op goes through the dispatcher twice a call, and where gradients are wanted it describes every
argument anew, which takes longer than a small computation. An operator made here is one of those, with kernels of its
own for the CPU and CUDA, with autograd and without. A kernel with autograd gets the dispatcher's key set of the call.
If the highest key below autograd is the device's own, nothing intercepts the call, such as a mode or a transform of
torch.func, and the operator is computed at once. Otherwise the call is passed on.
"""

import functools
from typing import Any, Callable, Tuple

import torch
from torch import Tensor
from torch.autograd import forward_ad

# PyTorch promises these names to nobody. Without them an operator is custom_op's alone.
_disable_dynamo: Any = getattr(torch, "_disable_dynamo", None)
_HAS_KEYS = _disable_dynamo is not None and all(
    hasattr(torch._C, name) for name in ("DispatchKey", "_AutoDispatchBelowAutograd", "_after_autograd_keyset")
)
# This release's compiled autograd cannot trace a backward pass, and its custom_op refuses forward-mode derivatives.
_IS_2_4 = torch.__version__.startswith("2.4.")
# Dense tensors of one of these have no other key below autograd.
_DEVICES = (torch._C.DispatchKey.CPU, torch._C.DispatchKey.CUDA) if _HAS_KEYS else ()


def _function(name: str, differentiate: "Callable[..., Any]", save: "Callable[[Any, Any, Any], None]") -> Any:
    """A torch.autograd.Function of an operator's inputs and, behind them, what computes the operator. Profiles know it
    by the name that custom_op gives."""

    def forward(ctx: Any, *inputs_and_compute: Any) -> Any:
        inputs, compute = inputs_and_compute[:-1], inputs_and_compute[-1]
        # Matches, which are integers, get no gradients of zeros then. Where PyTorch does not know this member, they do.
        ctx._materialize_non_diff_grads = False
        output = compute(*inputs)
        save(ctx, inputs, output)
        return output

    def backward(ctx: Any, *gradients: Any) -> Any:
        return (*differentiate(ctx, *gradients), None)

    if _IS_2_4:
        backward = _disable_dynamo(backward)
    members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type(f"GeneratedBackwardFor_maxsim_torch_{name}_default", (torch.autograd.Function,), members)


class Operator:
    """An operator torch.ops.maxsim_torch.NAME, made of a function with annotations as torch.library.custom_op wants
    them, which writes none of its arguments and returns none of them. It has register_fake and register_autograd of
    custom_op's result."""

    def __init__(self, name: str, compute: "Callable[..., Any]"):
        self.compute = compute
        self._definition = torch.library.custom_op(f"maxsim_torch::{name}", compute, mutates_args=())
        self._overload = getattr(torch.ops.maxsim_torch, name).default
        self._name = name
        self._function = _function(name, self._refuse, lambda ctx, inputs, output: None)
        library = getattr(self._definition, "_lib", None)
        if library is not None and _HAS_KEYS:
            kernel = _disable_dynamo(lambda keys, *arguments: self._kernel(keys, arguments))
            for device in ("CPU", "CUDA"):
                library.impl(name, kernel, f"Autograd{device}", with_keyset=True)
                library.impl(name, _disable_dynamo(compute), device)  # for torch.inference_mode

    def __call__(self, *arguments: Any) -> Any:
        return self._overload(*arguments)

    def register_fake(self, fake: "Callable[..., Any]") -> "Callable[..., Any]":
        return self._definition.register_fake(fake)

    def register_autograd(
        self, differentiate: "Callable[..., Tuple[Any, ...]]", *, setup_context: "Callable[[Any, Any, Any], None]"
    ) -> None:
        self._definition.register_autograd(differentiate, setup_context=setup_context)
        self._function = _function(self._name, differentiate, setup_context)

    def _kernel(self, keys: Any, arguments: "Tuple[Any, ...]") -> Any:
        """Computes the operator above a device, with gradients where one of the arguments wants them. `keys` is the
        dispatcher's key set of the call."""
        below = keys & torch._C._after_autograd_keyset
        compute = self.compute
        if below.highestPriorityTypeId() not in _DEVICES:
            compute = functools.partial(self._pass_on, below)
        if torch.is_grad_enabled():
            for argument in arguments:
                if isinstance(argument, Tensor) and argument.requires_grad:
                    return self._function.apply(*arguments, compute)
        if _IS_2_4 and forward_ad._current_level >= 0:
            return self._function.apply(*arguments, compute)
        return compute(*arguments)

    def _pass_on(self, keys: Any, *arguments: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            return self._overload.redispatch(keys, *arguments)

    def _refuse(self, ctx: Any, *gradients: Any) -> Any:
        raise RuntimeError(
            f"Trying to backward through {self._overload} but no autograd formula was registered. "
            f"Please use register_autograd to add one."
        )


def operator(name: str) -> "Callable[[Callable[..., Any]], Operator]":
    """Makes the operator torch.ops.maxsim_torch.NAME of the function below."""
    return lambda compute: Operator(name, compute)
