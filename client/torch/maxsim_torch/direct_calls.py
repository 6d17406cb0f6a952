"""Operators that PyTorch traces, compiles and differentiates, and that cost little where it does none of that.

torch.library.custom_op goes through the dispatcher twice per call, and if gradients are needed it describes every
argument anew, which takes longer than a small computation. An operator made here is also a custom_op. Called from
Python where nothing traces or watches, it is computed at once; otherwise it is called as any operator.
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


def _function(name: str, compute: "Callable[[Tuple[Any, ...]], Any]", results: _Results) -> Any:
    """A torch.autograd.Function of an operator's inputs. Profiles know it by the name that custom_op gives."""

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
    """Returns what takes the values at `places` out of a sequence."""
    if len(places) > 1:
        return operator_module.itemgetter(*places)
    return lambda values: tuple([values[idx] for idx in places])


def _make(inputs: Any) -> "Callable[[Sequence[Any]], Any]":
    """Returns what makes a NamedTuple of all its fields, as its _make does, without a look at their number."""
    return functools.partial(tuple.__new__, inputs)


class Operator:
    """An operator torch.ops.maxsim_torch.NAME, as torch.library.custom_op makes it of `compute`. It writes none of its
    arguments and returns none of them.

    `compute` and `fake`, which makes results without values, take a tuple of the arguments; `fields` are their names
    and types. The operator returns `num_results` tensors.

    What depends on the operator alone is found here, once: a call is to cost no more than one that is written out."""

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
        """Calls the operator by the dispatcher, after a look at what is lost there without an error: the tensors of a
        call with one on `meta` or in another memory, and forward-mode derivatives."""
        if not torch.compiler.is_compiling():
            tensors = [arguments[idx] for idx in self._tensors if isinstance(arguments[idx], Tensor)]
            for tensor in tensors:
                if tensor.device != tensors[0].device:
                    raise ValueError(
                        f"a tensor of the call is on {tensor.device}, and others are on {tensors[0].device}"
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
        """Makes the operator NAME_backward of the function below, and this operator's backward pass of that one; see
        Backward."""
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

    It is made of function(inputs, asked, gradient, *results, **more). `inputs` are NAME's, in which the arguments
    `without` have the values given there, and `asked` says for each argument of `of` whether its gradient is wanted:
    those that are not are empty. `gradient` is that of NAME's first result, `results` are NAME's last ones, and `more`
    are numbers with defaults, which the backward pass takes. `empty`, with the same arguments, makes results without
    values; without it they are like the arguments that they are gradients of.

    The operator's arguments are gradient, results, NAME's that it is not `without`, `more`, and `asked`: one list where
    the function says List[bool], and otherwise an of_ARGUMENT for each."""

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
        """Returns what makes a function of the operator's arguments, in a tuple, of one of (inputs, asked, gradient,
        *results, *more). It is written out for the operator, as NamedTuple's own methods are: to pick the arguments
        one by one takes several times as long."""
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
    """Memory for the gradients of tensors. The first tensor is not None. Gradients that are not asked for, or belong to
    None, are empty."""
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
    """Makes the operator torch.ops.maxsim_torch.NAME of the function below. That takes a NamedTuple: its fields are the
    operator's arguments. `empty` takes it too, and makes results without values, for compilers and tracers."""

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
