"""What becomes of every operation of ATen when a model goes to a target: mapped, decomposed, or refused and why.

In: a target. Out: the state of every overload that this torch has, read from the tables themselves: what the target
supports, what capture rewrites, and torch's own decompositions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import Literal

import torch
from pydantic import BaseModel, ConfigDict

from torchport.capture.decompositions import DECOMPOSITIONS
from torchport.capture.operations import (
    always_draws_random_numbers,
    arguments,
    is_mutating,
    overload,
    overloads,
)
from torchport.capture.simplify import HANDLED
from torchport.capture.torch_internals import aten_names, is_composite
from torchport.targets.base import Target

State = Literal["mapped", "decomposed", "refused"]
STATES: tuple[State, ...] = ("mapped", "decomposed", "refused")


class Covered(BaseModel):
    """What becomes of one operation."""

    model_config = ConfigDict(frozen=True)

    op: str
    state: State
    why: str | None = None
    """What it is rewritten to, or why it is refused."""
    core: bool
    """Whether torch counts it among the core operations, to which it can bring every model."""


class Coverage(BaseModel):
    """What becomes of every operation of ATen."""

    model_config = ConfigDict(frozen=True)

    target: str
    torch: str
    counts: dict[State, int]
    core: dict[State, int]
    """The counts of core operations alone."""
    operations: tuple[Covered, ...]


def coverage(target: Target) -> Coverage:
    table = _Table(target)
    operations = tuple(table.state_of(name) for name in aten_names())
    return Coverage(
        target=target.name,
        torch=torch.__version__,
        counts=_counts(one.state for one in operations),
        core=_counts(one.state for one in operations if one.core),
        operations=operations,
    )


def _counts(states: object) -> dict[State, int]:
    counted = Counter(states)  # type: ignore[call-overload]
    return {state: counted[state] for state in STATES}


class _Table:
    def __init__(self, target: Target) -> None:
        self.target = target

    def state_of(self, name: str) -> Covered:
        state, why = self._state(name)
        return Covered(op=name, state=state, why=why, core=torch.Tag.core in overload(name).tags)

    def _state(self, name: str) -> tuple[State, str | None]:
        if self.target.supports(name):
            return "mapped", _ONLY_IF_ALLOWED if always_draws_random_numbers(name) else None
        if name in HANDLED:
            return "decomposed", "dropped or rewritten when a model is captured"
        if is_mutating(name):
            return self._written(name)
        if name in _decompositions() or is_composite(name):
            reason = _of_family(name) or self._end(name)
            return ("refused", reason) if reason else ("decomposed", _MADE_OF_OTHERS)
        return "refused", self._why(name)

    def _written(self, name: str) -> tuple[State, str | None]:
        """The state of an operation that writes to what it is given, by that of its form that does not."""
        twin = functional_form(name)
        if twin is None and is_composite(name) and not _of_family(name):
            return "decomposed", _MADE_OF_OTHERS
        if twin is None:
            known = reason_to_refuse(name) or "it writes to what it is given, and has no form that does not"
            return "refused", known
        state, why = self._state(twin)
        captured = f"captured as {twin}"
        return ("refused", f"{captured}: {why}") if state == "refused" else ("decomposed", captured)

    def _end(self, name: str) -> str | None:
        """Why an operation is refused that torch makes of others, of which one is."""
        end = _ENDS_IN.get(name.split(".")[1])
        if end is None or self._state(end)[0] != "refused":
            return None
        return f"torch makes it of {end}: {self._state(end)[1]}"

    def _why(self, name: str) -> str:
        return reason_to_refuse(name) or self._form(name) or self._kernel(name)

    def _form(self, name: str) -> str | None:
        """That other forms of an operation are mapped, and this one is not."""
        mapped = [form for form in overloads(name.rpartition(".")[0]) if self.target.supports(form)]
        return f"of this operation {' and '.join(mapped)} is mapped, and not this form" if mapped else None

    def _kernel(self, name: str) -> str:
        base = name.split(".")[1]
        for pattern, reason in _KERNELS:
            if re.search(pattern, base):
                return reason
        return f"{self.target.name} has no kernel for it, and torch makes it of no other operations"


_ONLY_IF_ALLOWED = "with --allow-random: nothing is proven of the numbers, nor of what depends on them"
_MADE_OF_OTHERS = "torch makes it of other operations when a model is captured"


@cache
def _decompositions() -> frozenset[str]:
    return frozenset(map(str, [*torch.export.default_decompositions(), *DECOMPOSITIONS]))


def functional_form(name: str) -> str | None:
    """`aten.add.Tensor` of `aten.add_.Tensor` and of `aten.add.out`: the same operation, giving a new tensor."""
    namespace, base, _ = name.split(".")
    given = _types(name, without_written=not base.endswith("_"))
    plain = f"{namespace}.{_without_writing(base)}"
    for candidate in (*overloads(plain), *overloads(f"{plain}_functional")):
        if not is_mutating(candidate) and _types(candidate) == given:
            return candidate
    return None


def _without_writing(base: str) -> str:
    """`add` of `add_`, and `__lshift__` of `__ilshift__`."""
    if base.startswith("__i") and base.endswith("__"):
        return f"__{base[3:]}"
    return base if base.endswith("__") else base.removesuffix("_")


def _types(name: str, *, without_written: bool = False) -> list[tuple[str, str]]:
    """The names and types of the arguments; of those that only say where the result goes or how it is made, none."""
    return [
        (one.name, one.type)
        for one in arguments(name)
        if not (without_written and one.is_written and one.is_keyword_only) and one.name not in _OF_RESULTS
    ]


_OF_RESULTS = frozenset({"dtype", "layout", "device", "pin_memory", "memory_format"})

_WHOLE: Mapping[str, str] = {
    "_adaptive_avg_pool2d": "adaptive_avg_pool2d",
    "_adaptive_avg_pool3d": "adaptive_avg_pool3d",
    "convolution": "conv1d, conv2d, conv3d and their transposes",
    "_convolution": "conv1d, conv2d, conv3d and their transposes",
    "native_batch_norm": "batch_norm",
    "_native_batch_norm_legit_functional": "batch_norm",
    "native_dropout": "dropout",
    "native_group_norm": "group_norm",
    "native_layer_norm": "layer_norm",
}
"""Operations that torch makes of others, which models call and which are kept whole."""

_FAMILIES = (
    (r"backward|_jvp$|_grad$|_grad_", "it belongs to a backward pass, and a model is captured as it infers"),
    (r"sparse|coalesce|_nnz|_dimI|_dimV|crow_|ccol_|(row|col)_indices|spsolve|spdiags", "for sparse tensors"),
    (r"^(_?indices|_?values)(_copy)?$|dense_dim|hspmm|smm$", "for sparse tensors"),
    (r"_nested_|jagged|to_padded_tensor", "for nested tensors"),
    (
        r"quantize|quantized|^q_|qscheme|int_repr|_fq_helper|int4pack|int8pack|_dyn_quant|_cslt",
        "for tensors in torch's own quantised formats",
    ),
    (r"^_foreach_|^_fused_(adam|adamw|sgd|adagrad)|^_amp_", "for training: optimisers and gradients"),
    (
        r"cudnn|miopen|mkldnn|_mps|mps_|nnpack|_flash_attention|_efficient_attention|_cslt|_triton",
        "one backend's own form of an operation that has a general one",
    ),
    (r"_test_|_foobar|^_print$", "for tests of torch itself"),
    (r"_make_dual|_unpack_dual|_fw_primal|_efficientzerotensor|_lazy_clone", "for autograd itself"),
    (r"pin_memory|_storage|^set$|^resize|_resize|is_set_to|from_file|is_pinned", "about memory, not values"),
)
"""Patterns of names → why operations of that family are refused."""

_ENDS_IN: Mapping[str, str] = {
    "histogramdd": "aten._histogramdd_bin_edges.default",
    "linalg_ldl_factor": "aten.linalg_ldl_factor_ex.default",
    "lu_solve": "aten.linalg_lu_solve.default",
    "ctc_loss": "aten._ctc_loss.default",
    "resize_as_": "aten.resize.default",
}
"""Operations that torch makes of others → one of those that is refused; torch's samples of operations show it."""

_KERNELS = (
    (
        r"_copy$|^lift$|_inverse$|^as_strided_scatter$|^new_empty_strided$",
        "for what lies in memory, as functionalisation sees it",
    ),
    (r"^_philox|^_make_dep_token$", "for random numbers"),
    (r"^_functional_(assert|sym)|^_is_(all|any)_true$", "for asserts, which a port does not make"),
    (
        r"^_?slow_conv|^_?conv_depthwise|_overrideable$|^_thnn|^batch_norm_|^_batch_norm|^_transform|_cpu_fallback$"
        r"|^_native_multi|_impl$|_meta$|_helper$|^_add_relu$|_activation$|_linear$|^_(aminmax|stack|logcumsumexp)$",
        "a kernel that torch chooses for an operation that models call, which has a form of its own",
    ),
    (r"_scaled_(grouped_)?mm|^_int_mm|^_scaled", "for matrices of narrow formats with scales of their own"),
    (r"^special_(?!i0|i1|erf|zeta)|^special_zeta$", "a special function that the target has no kernel for"),
    (
        r"^_?linalg_|^geqrf$|^ormqr$|^triangular_solve$|^_cholesky|^_compute_linear",
        "a factorisation or a solver that the target has no kernel for",
    ),
    (
        r"^_?histogram|^segment_reduce$|_indices_from_",
        "it counts into bins or segments, which the target has no kernel for",
    ),
)
"""Patterns of names → what is missing, where no other form of the operation is mapped."""


def _of_family(name: str) -> str | None:
    base = name.split(".")[1]
    return next((reason for pattern, reason in _FAMILIES if re.search(pattern, base)), None)


def reason_to_refuse(name: str) -> str | None:
    """Why an operation is refused, if that follows from what it is."""
    _, base, form = name.split(".")
    if base.startswith("view") and form.startswith("dtype"):
        return "it reads the bits of numbers as those of another dtype"
    if family := _of_family(name):
        return family
    if base in _WHOLE:
        return f"models call {_WHOLE[base]}, which is kept whole"
    found = overload(name)
    if torch.Tag.nondeterministic_seeded in found.tags:
        return "it draws random numbers, which no port draws alike"
    if torch.Tag.dynamic_output_shape in found.tags:
        return "the shape of its result depends on values"
    if torch.Tag.data_dependent_output in found.tags:
        return "it makes a Python number of a value"
    if not any("Tensor" in str(result.type) for result in found._schema.returns):
        return "it gives no tensor"
    return None
