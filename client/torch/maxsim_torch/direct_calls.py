"""Operators that PyTorch can trace, compile and differentiate, and that cost little if it does none of these.

torch.library.custom_op goes through the dispatcher twice per call. If gradients are needed, it also describes every
argument again, which takes longer than a small computation. An operator of this module is also a custom_op. But a call
from Python computes directly if nothing traces or observes it; otherwise it goes through the dispatcher.
"""

import functools
import inspect
import operator as operator_module
import typing
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from .call_state import dispatch, has_tangent, transforms

# This release's compiled autograd cannot trace a backward pass.
_IS_2_4 = torch.__version__.startswith("2.4.")


class _Results:
    """An operator's setup_context and backward. Only the first result is differentiated. The gradients of the others
    stay None, because PyTorch would otherwise create zeros of the size of the matches."""

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


def _function(name: str, compute: "Callable[[Tuple[Any, ...]], Any]", results: _Results) -> Any:
    """A torch.autograd.Function of an operator's inputs. In profiles it has the name that custom_op would give it."""

    def forward(ctx: Any, *inputs: Any) -> Any:
        output = compute(inputs)
        results.save(ctx, inputs, output)
        return output

    # A plain function: compiled autograd takes no method.
    def backward(ctx: Any, *gradients: Any) -> Any:
        return results.differentiate(ctx, *gradients)

    if _IS_2_4:
        backward = torch._disable_dynamo(backward)  # type: ignore[attr-defined]
    members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type(f"GeneratedBackwardFor_maxsim_torch_{name}_default", (torch.autograd.Function,), members)


def _take(places: "Sequence[int]") -> "Callable[[Sequence[Any]], Tuple[Any, ...]]":
    """Returns a function that takes the values at `places` out of a sequence."""
    if len(places) > 1:
        return operator_module.itemgetter(*places)
    return lambda values: tuple([values[idx] for idx in places])


def _make(inputs: Any) -> "Callable[[Sequence[Any]], Any]":
    """Returns a function that makes a NamedTuple of all its fields, like its _make, but without checking their
    number."""
    return functools.partial(tuple.__new__, inputs)


class Operator:
    """The operator torch.ops.maxsim_torch.NAME, like one that torch.library.custom_op makes of `compute`. It writes to
    none of its arguments, and returns none of them.

    `compute` and `fake` take a tuple of the arguments; `fake` makes results without values. `fields` are the arguments'
    names and types. The operator returns `num_results` tensors.

    The constructor finds out everything that depends only on the operator, so that a call costs no more than
    hand-written code."""

    def __init__(
        self,
        name: str,
        fields: "Dict[str, Any]",
        num_results: int,
        compute: "Callable[[Tuple[Any, ...]], Any]",
        fake: "Callable[[Tuple[Any, ...]], Any]",
    ):
        def computed(*arguments: Any) -> Any:
            return compute(arguments)

        self.compute = computed
        self._compute = compute
        self._num_results = num_results
        self._name = name
        self._fields = fields
        parameters = [
            inspect.Parameter(field, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=kind)
            for field, kind in fields.items()
        ]
        # PyTorch derives the operator's schema from the signature.
        returned: Any = Tuple[(Tensor,) * num_results]
        computed.__signature__ = inspect.Signature(parameters, return_annotation=returned)  # type: ignore[attr-defined]
        self._definition = torch.library.custom_op(f"maxsim_torch::{name}", computed, mutates_args=())
        self._definition.register_fake(lambda *arguments: fake(arguments))
        self._overload = getattr(torch.ops.maxsim_torch, name).default
        self._tensors = [idx for idx, kind in enumerate(fields.values()) if _is_tensor(kind)]
        self._differentiated = self._overload  # what computes the operator where gradients are wanted

    def __call__(self, *arguments: Any) -> Any:
        if dispatch is None or dispatch.is_watched():
            return self._pass_on(arguments)
        any_gradient = False
        for idx in self._tensors:
            argument = arguments[idx]
            if argument is None:
                continue
            if not dispatch.is_plain(argument):
                return self._pass_on(arguments)
            any_gradient = any_gradient or argument.requires_grad
        if any_gradient and dispatch.differentiates():
            return self._differentiated(*arguments)
        return self._compute(arguments)

    def _pass_on(self, arguments: "Tuple[Any, ...]") -> Any:
        """Calls the operator through the dispatcher. First refuses what would go wrong there without an error: tensors
        on different devices, and forward-mode derivatives."""
        if not torch.compiler.is_compiling():
            tensors = [arguments[idx] for idx in self._tensors if isinstance(arguments[idx], Tensor)]
            for tensor in tensors:
                if tensor.device != tensors[0].device:
                    raise ValueError(
                        f"a tensor of the call is on {tensor.device}, but others are on {tensors[0].device}"
                    )
                self._refuse_derivatives(tensor)
        return self._overload(*arguments)

    def _refuse_derivatives(self, tensor: Tensor) -> None:
        mode = ""
        if transforms is not None and dispatch is not None and dispatch.in_transform():
            mode = transforms.derivative(tensor)
        elif has_tangent(tensor):
            mode = "forward"
        if mode == "forward":
            raise NotImplementedError(
                f"maxsim_torch::{self._name} has no forward-mode derivatives (forward_ad; jvp, jacfwd of torch.func)"
            )
        if mode == "reverse":
            raise NotImplementedError(
                f"maxsim_torch::{self._name} has no derivatives in torch.func (grad, vjp, jacrev, hessian); use "
                f"torch.autograd.grad or backward(), also of what torch.func.vmap returns"
            )

    def gradients(
        self, of: "Sequence[str]", without: "Dict[str, Any]", empty: "Optional[Callable[..., Any]]" = None
    ) -> "Callable[[Callable[..., Any]], Backward]":
        """Makes the operator NAME_backward of the decorated function, and makes it this operator's backward pass (see
        Backward)."""
        return lambda function: Backward(self, of, without, function, empty)

    def _differentiate_by(self, backward: "Backward") -> None:
        names = list(self._fields)
        places = [names.index(name) for name in backward.of]
        kept = [names.index(name) for name in backward.kept]
        take_asked = _take(places)
        take_tensors = _take([idx for idx in kept if idx in self._tensors])
        take_numbers = _take([idx for idx in kept if idx not in self._tensors])
        end_of_arguments, num_arguments = backward.end_of_arguments, len(names)
        first_result_kept = self._num_results - backward.num_results_kept
        with_argmax = names.index("with_argmax") if "with_argmax" in names else None

        def save(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.mark_non_differentiable(*output[1:])
            if with_argmax is not None and not inputs[with_argmax]:
                return
            ctx.save_for_backward(*output[first_result_kept:], *take_tensors(inputs))
            ctx.numbers = take_numbers(inputs)

        def differentiate(ctx: Any, gradient: Tensor, *_: Any) -> Any:
            if not hasattr(ctx, "numbers"):
                raise RuntimeError(
                    f"maxsim_torch::{self._name} was called without with_argmax, and has no gradients"
                )
            asked = take_asked(ctx.needs_input_grad)
            made = backward(gradient, *ctx.saved_tensors, *ctx.numbers, *end_of_arguments(asked))
            results: "List[Optional[Tensor]]" = [None] * num_arguments
            for idx, wanted, result in zip(places, asked, made):
                if wanted:
                    results[idx] = result
            return tuple(results)

        results = _Results(differentiate, save)
        self._definition.register_autograd(results.differentiate, setup_context=results.save)
        if dispatch is not None:
            # Calls Function.apply without its step that unwraps arguments left over from transforms of torch.func.
            self._differentiated = super(  # type: ignore[misc]
                torch.autograd.Function, _function(self._name, self._compute, results)
            ).apply


class Backward(Operator):
    """The operator NAME_backward of an operator NAME: the gradients of its arguments `of`.

    It is made of function(inputs, asked, gradient, *results, **more). `inputs` are NAME's arguments, in which the
    arguments `without` have the values given there. `asked` says for each argument of `of` whether its gradient is
    needed; gradients that are not needed are empty. `gradient` is the gradient of NAME's first result, `results` are
    NAME's last ones. `more` are numbers with defaults, which the backward pass takes. `empty`, with the same arguments,
    makes results without values. If there is no `empty`, each result is like the argument whose gradient it is.

    The operator's arguments are the gradient, the results, NAME's arguments except `without`, `more`, and `asked`.
    `asked` is one list if the function declares List[bool], and otherwise an argument of_ARGUMENT for each."""

    def __init__(
        self,
        forward: Operator,
        of: "Sequence[str]",
        without: "Dict[str, Any]",
        function: "Callable[..., Any]",
        empty: "Optional[Callable[..., Any]]",
    ):
        self.of = of
        self.kept = [name for name in forward._fields if name not in without]
        inputs, asked, *others = inspect.signature(function).parameters.values()
        first = {one.name: Tensor for one in others if one.annotation is Tensor}
        more = {one.name: one for one in others if one.annotation is not Tensor}
        self.num_results_kept = len(first) - 1
        self._defaults = tuple(one.default for one in more.values())
        self._asks_by_list = asked.annotation == List[bool]
        self._ends_with_asked = not more and not self._asks_by_list
        fields: "Dict[str, Any]" = {**first, **{name: forward._fields[name] for name in self.kept}}
        self._take_kept = _take([*map(list(forward._fields).index, self.kept)])
        fields.update({name: one.annotation for name, one in more.items()})
        fields.update({"asked": List[bool]} if self._asks_by_list else {f"of_{name}": bool for name in of})
        rearranged = self._rearranging(list(fields), forward, without, len(first), list(more))

        def like_inputs(given: Any, wanted: "Sequence[bool]", *_: Any) -> "Tuple[Tensor, ...]":
            return empty_gradients([getattr(given, name) for name in of], wanted)

        super().__init__(
            f"{forward._name}_backward",
            fields,
            len(of),
            rearranged(function, _make(inputs.annotation), without),
            rearranged(empty or like_inputs, _make(inputs.annotation), without),
        )
        forward._differentiate_by(self)

    def _rearranging(
        self,
        fields: "Sequence[str]",
        forward: Operator,
        without: "Dict[str, Any]",
        num_first: int,
        more: "Sequence[str]",
    ) -> "Callable[..., Callable[[Tuple[Any, ...]], Any]]":
        """Returns a function of the tuple of the operator's arguments that calls a function of (inputs, asked,
        gradient, *results, *more). Its code is generated for the operator, as NamedTuple's own methods are, because
        picking the arguments one by one takes several times as long."""
        inputs = "".join(f"without[{name!r}], " if name in without else f"{name}, " for name in forward._fields)
        asked = "asked" if self._asks_by_list else "(" + "".join(f"of_{name}, " for name in self.of) + ")"
        others = ", ".join([*fields[:num_first], *more])
        source = (
            f"def rearranging(function, make, without):\n"
            f"    def call(arguments):\n"
            f"        {', '.join(fields)} = arguments\n"
            f"        return function(make(({inputs})), {asked}, {others})\n"
            f"    return call\n"
        )
        made: "Dict[str, Any]" = {}
        exec(source, made)
        rearranging: "Callable[..., Callable[[Tuple[Any, ...]], Any]]" = made["rearranging"]
        return rearranging

    def end_of_arguments(self, asked: "Sequence[bool]") -> "Sequence[Any]":
        """The arguments after those of the forward pass."""
        if self._ends_with_asked:
            return asked
        return (*self._defaults, list(asked)) if self._asks_by_list else (*self._defaults, *asked)

    def differentiate(self, inputs: Any, asked: "Sequence[bool]", gradient: Tensor, *results: Tensor) -> Any:
        """Calls the operator for the forward pass of `inputs`."""
        return self(gradient, *results, *self._take_kept(inputs), *self.end_of_arguments(asked))


def _is_tensor(kind: Any) -> bool:
    return kind in (Tensor, Optional[Tensor])


def empty_gradients(tensors: "Sequence[Optional[Tensor]]", asked: "Sequence[bool]") -> "Tuple[Tensor, ...]":
    """Allocates memory for the gradients of tensors. The first tensor is not None. Gradients that are not needed, or
    belong to None, are empty."""
    some = tensors[0]
    assert some is not None
    return tuple(
        [
            some.new_empty((0,), dtype=torch.float32)
            if tensor is None
            else tensor.new_empty(tensor.shape if wanted else (0,))
            for tensor, wanted in zip(tensors, asked)
        ]
    )


def operator(name: str, empty: "Callable[[Any], Any]") -> "Callable[[Callable[[Any], Any]], Operator]":
    """A decorator that makes the operator torch.ops.maxsim_torch.NAME of a function. The function takes a NamedTuple,
    whose fields are the operator's arguments. `empty` takes it too, and makes results without values, for compilers and
    tracers."""

    def make(function: "Callable[[Any], Any]") -> Operator:
        hints = typing.get_type_hints(function)
        inputs, results = hints["inputs"], typing.get_args(hints["return"])
        made = _make(inputs)
        return Operator(
            name,
            typing.get_type_hints(inputs),
            len(results),
            lambda arguments: function(made(arguments)),
            lambda arguments: empty(made(arguments)),
        )

    return make
