"""Whole models in another layout, dtype, mode, number of threads, or run by another part of torch."""

from __future__ import annotations

import copy
import functools
import io
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import checkpoint

from .patching import around, set_forward
from .rewriting import Candidate, Example, rewriting

SOME = frozenset({"mlp", "cnn", "encoder_layer", "rotary", "unet", "audio", "llama", "gates"})
"""Models to trace and compile: one of each family."""
FEW = frozenset({"mlp", "cnn", "rotary", "gates"})
"""Models for compilers that take long."""


def always(model: Any, **rest: Any) -> Candidate:
    return Candidate(model, lambda: 1, **rest)


def inputs_changed(model: nn.Module, change: Callable[[Tensor], Tensor]) -> nn.Module:
    def run(forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        args, kwargs = pytree.tree_map_only(Tensor, change, (args, kwargs))
        return forward(*args, **kwargs)

    return around(model, run)


def within(model: nn.Module, context: Callable[[], AbstractContextManager[Any]]) -> nn.Module:
    def run(forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with context():
            return forward(*args, **kwargs)

    return around(model, run)


def channels_last(tensor: Tensor) -> Tensor:
    return tensor.contiguous(memory_format=torch.channels_last) if tensor.ndim == 4 else tensor


def has_pictures(example: Example) -> bool:
    return any(isinstance(module, nn.Conv2d) for module in example.model.modules())


@rewriting("model: channels last, weights")
def weights_channels_last(example: Example) -> Candidate | None:
    twin = copy.deepcopy(example.model).to(memory_format=torch.channels_last)
    return always(twin) if has_pictures(example) else None


@rewriting("model: channels last, input")
def input_channels_last(example: Example) -> Candidate | None:
    return always(inputs_changed(example.model, channels_last)) if has_pictures(example) else None


@rewriting("model: channels last, weights and input")
def all_channels_last(example: Example) -> Candidate | None:
    twin = inputs_changed(example.model, channels_last)
    return always(twin.to(memory_format=torch.channels_last)) if has_pictures(example) else None


@rewriting("model: copy", "eager")
def copied(example: Example) -> Candidate:
    return always(copy.deepcopy(example.model))


@rewriting("model: state saved and loaded", "eager")
def reloaded(example: Example) -> Candidate:
    twin, file = copy.deepcopy(example.model), io.BytesIO()
    torch.save(example.model.state_dict(), file)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    twin.load_state_dict(torch.load(io.BytesIO(file.getvalue())))
    return always(twin)


@rewriting("model: functional_call", "eager")
def functional(example: Example) -> Candidate:
    twin = copy.deepcopy(example.model)
    state = {**dict(twin.named_parameters()), **dict(twin.named_buffers())}

    class Functional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name, child in twin.named_children():
                self.add_module(name, child)

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return functional_call(twin, state, args, kwargs)

    return always(Functional() if next(twin.children(), None) is not None else twin)


@rewriting("model: inference_mode", "eager", directions=("forward",))
def inference_mode(example: Example) -> Candidate:
    return always(within(example.model, torch.inference_mode))


@rewriting("model: no_grad", "eager", directions=("forward",))
def no_grad(example: Example) -> Candidate:
    return always(within(example.model, torch.no_grad))


class Threads(AbstractContextManager[None]):
    """Torch with two threads."""

    def __enter__(self) -> None:
        self.before = torch.get_num_threads()
        torch.set_num_threads(2)

    def __exit__(self, *_: object) -> None:
        torch.set_num_threads(self.before)


@rewriting("model: 2 threads")
def two_threads(example: Example) -> Candidate:
    return always(within(example.model, Threads))


@rewriting("model: without oneDNN")
def without_onednn(example: Example) -> Candidate:
    return always(within(example.model, lambda: torch.backends.mkldnn.flags(enabled=False)))


@rewriting("model: float64")
def float64(example: Example) -> Candidate:
    return always(copy.deepcopy(example.model).double())


def if_it_runs(model: nn.Module, inputs: Any) -> Candidate | None:
    """The model as a candidate; None if torch cannot run it, as one that fills with a number that bfloat16 lacks."""
    args, kwargs = inputs
    try:
        model(*args, **kwargs)
    except RuntimeError:
        return None
    return always(model)


@rewriting("model: bfloat16", "bf16_sums")
def bfloat16(example: Example) -> Candidate | None:
    floats = pytree.tree_map_only(
        Tensor, lambda one: one.bfloat16() if one.is_floating_point() else one, (example.args, example.kwargs)
    )
    return if_it_runs(copy.deepcopy(example.model).bfloat16(), floats)


@rewriting("model: autocast to bfloat16", "bf16_sums")
def autocast(example: Example) -> Candidate | None:
    twin = within(example.model, lambda: torch.autocast("cpu", torch.bfloat16))
    return if_it_runs(twin, (example.args, example.kwargs))


@rewriting("model: each sample alone")
def samples_alone(example: Example) -> Candidate | None:
    """The whole model, sample by sample; only its outputs can be compared."""
    twin = copy.deepcopy(example.model)
    tensors = [
        leaf for leaf in pytree.tree_leaves((example.args, example.kwargs)) if isinstance(leaf, Tensor)
    ]
    whole = example.run(twin)
    if len({tensor.shape[0] for tensor in tensors}) != 1 or tensors[0].shape[0] < 2:
        return None
    if not isinstance(whole, Tensor) or whole.shape[0] != tensors[0].shape[0]:
        return None

    class Alone(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name, child in twin.named_children():
                self.add_module(name, child)

        def forward(self, *args: Any, **kwargs: Any) -> Tensor:
            return torch.cat([self.one(index, args, kwargs) for index in range(tensors[0].shape[0])])

        def one(self, index: int, *inputs: Any) -> Any:
            args, kwargs = pytree.tree_map_only(Tensor, lambda tensor: tensor[index : index + 1], inputs)
            return twin(*args, **kwargs)

    return always(Alone())


@rewriting("model: blocks checkpointed", "eager", directions=("backward",))
def checkpointed(example: Example) -> Candidate | None:
    """Children run again on the way back, but for activations in place, which change what they would run on."""
    twin = copy.deepcopy(example.model)
    children = [child for child in twin.children() if not getattr(child, "inplace", False)]
    for child in children:
        set_forward(child, _running_again(child.forward))
    return always(twin) if children else None


def _running_again(forward: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(forward)
    def again(*args: Any, **kwargs: Any) -> Any:
        return checkpoint(forward, *args, use_reentrant=False, **kwargs)

    return again


def compiled(example: Example, backend: str) -> Candidate:
    torch._dynamo.reset()
    return always(torch.compile(copy.deepcopy(example.model), backend=backend))


@rewriting("model: compiled, eager", "eager", models=SOME)
def compiled_eager(example: Example) -> Candidate:
    return compiled(example, "eager")


@rewriting("model: compiled, aot_eager", models=SOME)
def compiled_aot(example: Example) -> Candidate:
    return compiled(example, "aot_eager")


@rewriting("model: compiled, inductor", models=FEW)
def compiled_inductor(example: Example) -> Candidate:
    return compiled(example, "inductor")


def quietly(example: Example, make: Callable[[nn.Module], Any]) -> Candidate | None:
    """What torch makes of a copy of the model; None if it cannot, or if that does not run."""
    with warnings.catch_warnings(), torch.enable_grad():  # Without gradients, fast paths would be traced.
        warnings.simplefilter("ignore")
        try:
            made = make(copy.deepcopy(example.model))
            example.run(made)
            return always(made)
        except Exception:  # Scripting and tracing raise whatever they like for models they do not understand.
            return None


@rewriting("model: jit.trace", models=SOME)
def traced(example: Example) -> Candidate | None:
    trace: Callable[..., Any] = torch.jit.trace
    return quietly(example, lambda twin: trace(twin, example.args, check_trace=False))


@rewriting("model: jit.script", models=SOME)
def scripted(example: Example) -> Candidate | None:
    return quietly(example, torch.jit.script)


@rewriting("model: fx", "eager", models=SOME)
def symbolic(example: Example) -> Candidate | None:
    return quietly(example, torch.fx.symbolic_trace)


@rewriting("model: torch.export", "eager", models=SOME)
def exported(example: Example) -> Candidate | None:
    return quietly(example, lambda twin: torch.export.export(twin, example.args, example.kwargs).module())


def with_attention(model: nn.Module, implementation: str) -> nn.Module | None:
    """A copy of a model of transformers that attends by this implementation."""
    twin = copy.deepcopy(model)
    try:
        twin.set_attn_implementation(implementation)  # type: ignore[operator]
    except (
        AttributeError,
        ValueError,
    ):  # It is not of transformers, or does not support this implementation.
        return None
    return twin


@rewriting("transformers: eager attention for sdpa")
def eager_for_sdpa(example: Example) -> Candidate | None:
    candidate = with_attention(example.model, "eager")
    return None if candidate is None else always(candidate)


@rewriting("transformers: sdpa for eager attention")
def sdpa_for_eager(example: Example) -> Candidate | None:
    candidate, reference = (with_attention(example.model, name) for name in ("sdpa", "eager"))
    return None if candidate is None or reference is None else always(candidate, reference=reference)
