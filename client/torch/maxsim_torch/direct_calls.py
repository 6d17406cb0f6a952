"""Operators that PyTorch traces, compiles and differentiates, and that cost little where it does none of that.

torch.library.custom_op goes through the dispatcher twice a call, and where gradients are wanted it describes every
argument anew, which takes longer than a small computation. An operator made here is one of those. Called from Python
where nothing wants to see the call, it is computed at once; otherwise the call goes the way of every operator.
"""

import contextlib
import inspect
import operator as operator_module
import typing
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter

# This release's compiled autograd cannot trace a backward pass.
_IS_2_4 = torch.__version__.startswith("2.4.")

# Other subclasses may have operators of their own.
_CLASSES = frozenset((Tensor, Parameter))


class _Dispatch:
    """What the dispatcher would find. PyTorch promises these names to nobody: without one of them there is an
    AttributeError here, at import, and operators are custom_op's alone."""

    def __init__(self) -> None:
        self._keys_of = torch._C._dispatch_keys
        self._number_of: "Callable[[Any], Any]" = getattr(torch._C.DispatchKeySet, "raw_repr", repr)
        self._is_excluded = torch._C._dispatch_tls_is_dispatch_key_excluded
        self._autograd = torch._C.DispatchKey.AutogradFunctionality
        self._modes = torch._C._len_torch_dispatch_stack
        self._function_modes = torch._C._len_torch_function_stack
        self._trace = torch._C._get_tracing_state
        self._is_profiled = torch.autograd._profiler_enabled
        self.in_transform = torch._C._are_functorch_transforms_active
        forward_ad._current_level  # noqa: B018
        self._plain = frozenset(self._plain_key_sets())

    def _plain_key_sets(self) -> "Iterator[Any]":
        """The key sets of dense tensors on a device that the library computes on: with what autograd wants, and
        without, as tensors of inference mode are. Views of what is negative or conjugate have others."""
        keys, single = torch._C.DispatchKey, torch._C.DispatchKeySet
        for name in ("CPU", "CUDA"):
            bare = single(getattr(keys, name)) | single(getattr(keys, f"Autocast{name}"))
            yield self._number_of(bare)
            yield self._number_of(bare | single(keys.ADInplaceOrView) | single(getattr(keys, f"Autograd{name}")))

    def is_plain(self, tensor: Any) -> bool:
        """Whether the dispatcher goes from autograd to the device's kernel."""
        return tensor.__class__ in _CLASSES and self._number_of(self._keys_of(tensor)) in self._plain

    def is_traced(self) -> bool:
        """Whether tensors may stand for others: in a compiler, a tracer, a mode of the dispatcher or a transform."""
        return (
            torch.compiler.is_compiling() or self._modes() > 0 or self.in_transform() or self._trace() is not None
        )

    def is_watched(self) -> bool:
        """Whether something wants to see every operator: what traces, a mode of functions, forward-mode derivatives, a
        profiler of the thread."""
        return (
            self.is_traced()
            or self._function_modes() > 0
            or forward_ad._current_level >= 0
            or self._is_profiled()
        )

    def differentiates(self) -> bool:
        """Whether autograd looks at what is computed: not under no_grad, in inference mode or below it."""
        return torch.is_grad_enabled() and not self._is_excluded(self._autograd)


class _Transforms:
    """Detects the transforms of torch.func that differentiate. As in _Dispatch, raises AttributeError at import if a
    name no longer exists."""

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
            # Only the innermost transform's tangent can be read. A tensor of an outer one is taken to have a tangent, as
            # it mostly does.
            if kind == self._jvp and (level != top or forward_ad.unpack_dual(tensor).tangent is not None):
                return "forward"
            tensor = self._unwrapped(tensor)
        return ""


_dispatch: Optional[_Dispatch] = None
with contextlib.suppress(AttributeError):
    _dispatch = _Dispatch()
_transforms: Optional[_Transforms] = None
with contextlib.suppress(AttributeError):
    _transforms = _Transforms()


def hides_gradients() -> bool:
    """Whether a transform of torch.func is at work, in which a tensor may want a gradient without telling."""
    if torch.compiler.is_compiling() or not torch.is_grad_enabled():
        return False
    return _dispatch is not None and _dispatch.in_transform()


def wants_gradient(*tensors: Optional[Tensor]) -> bool:
    """Whether a tensor needs a gradient, or may need one that its requires_grad does not show (hides_gradients)."""
    if torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors):
        return True
    return hides_gradients()


def can_read(tensor: Tensor) -> bool:
    """Whether a tensor's values may be looked at: they are in the memory of the CPU, and nothing traces the call."""
    if torch.compiler.is_compiling() or tensor.__class__ not in _CLASSES or tensor.device.type != "cpu":
        return False
    return _dispatch is not None and not _dispatch.is_traced()


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

    # A plain function: compiled autograd takes no method.
    def backward(ctx: Any, *gradients: Any) -> Any:
        return results.differentiate(ctx, *gradients)

    if _IS_2_4:
        backward = torch._disable_dynamo(backward)
    members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type(f"GeneratedBackwardFor_maxsim_torch_{name}_default", (torch.autograd.Function,), members)


class Operator:
    """The operator torch.ops.maxsim_torch.NAME, which torch.library.custom_op makes of `compute`. It neither writes nor
    returns any of its arguments.

    `fields` are the arguments' names and types. `compute` and `fake` take the arguments one by one; `fake` returns
    results without values, for compilers and tracers. The operator returns `num_results` tensors."""

    def __init__(
        self,
        name: str,
        fields: "Dict[str, Any]",
        num_results: int,
        compute: "Callable[..., Any]",
        fake: "Callable[..., Any]",
    ):
        self.compute = compute
        self._name = name
        self._fields = fields
        parameters = [
            inspect.Parameter(field, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=kind)
            for field, kind in fields.items()
        ]
        # PyTorch derives the operator's schema from the signature.
        returned: Any = Tuple[(Tensor,) * num_results]  # type: ignore[misc]
        compute.__signature__ = inspect.Signature(parameters, return_annotation=returned)  # type: ignore[attr-defined]
        self._definition = torch.library.custom_op(f"maxsim_torch::{name}", compute, mutates_args=())
        self._definition.register_fake(fake)
        self._overload = getattr(torch.ops.maxsim_torch, name).default
        self._tensors = [idx for idx, kind in enumerate(fields.values()) if _is_tensor(kind)]
        self._differentiated = self._overload  # what computes the operator where gradients are wanted

    def __call__(self, *arguments: Any) -> Any:
        if _dispatch is None or _dispatch.is_watched():
            return self._pass_on(arguments)
        any_gradient = False
        for idx in self._tensors:
            argument = arguments[idx]
            if argument is None:
                continue
            if not _dispatch.is_plain(argument):
                return self._pass_on(arguments)
            any_gradient = any_gradient or argument.requires_grad
        if any_gradient and _dispatch.differentiates():
            return self._differentiated(*arguments)
        return self.compute(*arguments)

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
        if _transforms is not None and _dispatch is not None and _dispatch.in_transform():
            mode = _transforms.derivative(tensor)
        elif forward_ad.unpack_dual(tensor).tangent is not None:
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
        """A decorator that makes the operator NAME_backward of a function, and makes it the backward pass of this
        operator. Backward says what the function takes."""
        return lambda function: Backward(self, of, without, function, empty)

    def _differentiate_by(self, backward: "Backward") -> None:
        names = list(self._fields)
        places = [names.index(name) for name in backward.of]
        kept = [names.index(name) for name in backward.kept]
        tensors = [idx for idx in kept if idx in self._tensors]
        numbers = [idx for idx in kept if idx not in self._tensors]
        with_argmax = names.index("with_argmax") if "with_argmax" in names else None

        def save(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.mark_non_differentiable(*output[1:])
            if with_argmax is not None and not inputs[with_argmax]:
                return
            ctx.save_for_backward(*output[len(output) - backward.num_results_kept :], *(inputs[idx] for idx in tensors))
            ctx.numbers = tuple(inputs[idx] for idx in numbers)

        def differentiate(ctx: Any, gradient: Tensor, *_: Any) -> Any:
            if not hasattr(ctx, "numbers"):
                raise RuntimeError(
                    f"maxsim_torch::{self._name} was called without with_argmax, and has no gradients"
                )
            asked = [ctx.needs_input_grad[idx] for idx in places]
            made = backward(gradient, *ctx.saved_tensors, *ctx.numbers, *backward.end_of_arguments(asked))
            results: "List[Optional[Tensor]]" = [None] * len(names)
            for idx, wanted, result in zip(places, asked, made):
                if wanted:
                    results[idx] = result
            return tuple(results)

        results = _Results(differentiate, save)
        self._definition.register_autograd(results.differentiate, setup_context=results.save)
        if _dispatch is not None:
            # Function.apply without its search for what transforms of torch.func left behind.
            self._differentiated = super(
                torch.autograd.Function, _function(self._name, self.compute, results)
            ).apply


class Backward(Operator):
    """The operator NAME_backward of an operator NAME. It returns the gradients of NAME's arguments `of`.

    It is made of function(inputs, asked, gradient, *results, **more):
    - `inputs`: NAME's arguments; those in `without` have the values given there.
    - `asked`: whether the gradient of each argument in `of` is needed. One that is not needed is returned empty.
    - `gradient`: the gradient of NAME's first result.
    - `results`: NAME's last results.
    - `more`: numbers with defaults, which the backward pass uses.

    `empty` takes the same arguments and returns results without values. By default each is like the argument that it
    is the gradient of.

    The operator's own arguments are, in this order: the gradient, the results, NAME's arguments that are not in
    `without`, `more`, and `asked`. `asked` is one list if the function annotates it as List[bool], and otherwise one
    bool of_ARGUMENT for each."""

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
        fields: "Dict[str, Any]" = {**first, **{name: forward._fields[name] for name in self.kept}}
        self._take_kept = operator_module.itemgetter(*map(list(forward._fields).index, self.kept))
        names = [*fields, *without]
        fields.update({name: one.annotation for name, one in more.items()})
        fields.update({"asked": List[bool]} if self._asks_by_list else {f"of_{name}": bool for name in of})
        take_inputs = operator_module.itemgetter(*map(names.index, forward._fields))
        num_first, end, constants = len(first), len(first) + len(self.kept), tuple(without.values())
        num_before_asked = end + len(more)

        def call(used: "Callable[..., Any]", arguments: "Tuple[Any, ...]") -> Any:
            given = inputs.annotation._make(take_inputs((*arguments[:end], *constants)))
            wanted = arguments[-1] if self._asks_by_list else arguments[num_before_asked:]
            return used(given, wanted, *arguments[:num_first], *arguments[end:num_before_asked])

        def like_inputs(given: Any, wanted: "Sequence[bool]", *_: Any) -> "Tuple[Tensor, ...]":
            return empty_gradients([getattr(given, name) for name in of], wanted)

        super().__init__(
            f"{forward._name}_backward",
            fields,
            len(of),
            lambda *arguments: call(function, arguments),
            lambda *arguments: call(empty or like_inputs, arguments),
        )
        forward._differentiate_by(self)

    def end_of_arguments(self, asked: "Sequence[bool]") -> "Tuple[Any, ...]":
        """The operator's last arguments: the defaults of `more`, then `asked`."""
        return (*self._defaults, list(asked)) if self._asks_by_list else (*self._defaults, *asked)

    def differentiate(self, inputs: Any, asked: "Sequence[bool]", gradient: Tensor, *results: Tensor) -> Any:
        """Calls the operator with the `inputs` of the forward pass."""
        return self(gradient, *results, *self._take_kept(inputs), *self.end_of_arguments(asked))


def _is_tensor(kind: Any) -> bool:
    return kind in (Tensor, Optional[Tensor])


def empty_gradients(tensors: "Sequence[Optional[Tensor]]", asked: "Sequence[bool]") -> "Tuple[Tensor, ...]":
    """Allocates the gradients of `tensors`, whose first is not None. A gradient that is not asked for, or of None, is
    empty."""
    some = tensors[0]
    assert some is not None
    return tuple(
        some.new_empty((0,), dtype=torch.float32)
        if tensor is None
        else tensor.new_empty(tensor.shape if wanted else (0,))
        for tensor, wanted in zip(tensors, asked)
    )


def operator(name: str, empty: "Callable[[Any], Any]") -> "Callable[[Callable[[Any], Any]], Operator]":
    """A decorator that makes the operator torch.ops.maxsim_torch.NAME of a function that takes one NamedTuple, whose
    fields are the operator's arguments. `empty` takes the same NamedTuple and returns results without values, for
    compilers and tracers."""

    def make(function: "Callable[[Any], Any]") -> Operator:
        hints = typing.get_type_hints(function)
        inputs, results = hints["inputs"], typing.get_args(hints["return"])
        return Operator(
            name,
            typing.get_type_hints(inputs),
            len(results),
            lambda *arguments: function(inputs._make(arguments)),
            lambda *arguments: empty(inputs._make(arguments)),
        )

    return make
