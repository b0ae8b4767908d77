"""Operations that fold axes away, and those that run along one."""

from __future__ import annotations

from torchport.capture import graph as g
from torchport.targets.candle import rust
from torchport.targets.candle.emit import Emitter
from torchport.targets.candle.registry import Args, Several, axes, axis, cast, dtype_word, op, rows

rows(
    {
        "aten.softmax.int": "ops::softmax({self}, {dim:axis})?",
        "aten._softmax.default": "ops::softmax({self}, {dim:axis})?",
        "aten.log_softmax.int": "ops::log_softmax({self}, {dim:axis})?",
        "aten._log_softmax.default": "ops::log_softmax({self}, {dim:axis})?",
        "aten.logsumexp.default": "ops::logsumexp({self}, {dim:axes}, {keepdim:bool})?",
    },
    promote=True,
)
rows(
    {
        "aten.amax.default": "ops::amax({self}, {dim:axes}, {keepdim:bool})?",
        "aten.amin.default": "ops::amin({self}, {dim:axes}, {keepdim:bool})?",
        "aten.any.dim": "ops::any({self}, {dim:axes}, {keepdim:bool})?",
        "aten.any.dims": "ops::any({self}, {dim:axes}, {keepdim:bool})?",
        "aten.all.dim": "ops::all({self}, {dim:axes}, {keepdim:bool})?",
        "aten.all.dims": "ops::all({self}, {dim:axes}, {keepdim:bool})?",
    }
)


def _fold(e: Emitter, a: Args, name: str) -> str:
    dims = axes(e, a["self"], a["dim"] if "dim" in a.values else None)
    keep = "true" if a.values.get("keepdim") else "false"
    for argument in ("keepdim", "dtype"):
        if argument in a.values:
            a[argument]
    return _as_wide(
        f"ops::{name}({cast(e, a['self'], a.output.dtype)}, &{dims}, {keep})?", name, a.output.dtype
    )


def _as_wide(text: str, name: str, dtype: str) -> str:
    """Sums and products of integers come as i64; who asked for another dtype gets that."""
    if name in ("amax", "amin") or dtype in (*g.FLOATS, "int64"):
        return text
    return f"ops::to_dtype(&{text}, {dtype_word(dtype)})?"


@op("aten.cumsum.default")
def cumsum(e: Emitter, a: Args) -> str:
    return _running(e, a, "cumsum")


@op("aten.cumprod.default")
def cumprod(e: Emitter, a: Args) -> str:
    return _running(e, a, "cumprod")


def _running(e: Emitter, a: Args, name: str) -> str:
    a["dtype"]
    dim = axis(a["dim"], e.meta(a["self"]).rank)
    return _as_wide(f"ops::{name}({cast(e, a['self'], a.output.dtype)}, {dim})?", name, a.output.dtype)


@op("aten.sum.dim_IntList", "aten.sum.default")
def sum_(e: Emitter, a: Args) -> str:
    return _fold(e, a, "sum")


@op("aten.mean.dim", "aten.mean.default")
def mean(e: Emitter, a: Args) -> str:
    return _fold(e, a, "mean")


@op("aten.prod.default", "aten.prod.dim_int")
def prod(e: Emitter, a: Args) -> str:
    return _fold(e, a, "prod")


@op("aten.max.default")
def max_all(e: Emitter, a: Args) -> str:
    return _fold(e, a, "amax")


@op("aten.min.default")
def min_all(e: Emitter, a: Args) -> str:
    return _fold(e, a, "amin")


@op("aten.any.default")
def any_all(e: Emitter, a: Args) -> str:
    return f"ops::any({e.ref(a['self'])}, &{axes(e, a['self'], None)}, false)?"


@op("aten.all.default")
def all_all(e: Emitter, a: Args) -> str:
    return f"ops::all({e.ref(a['self'])}, &{axes(e, a['self'], None)}, false)?"


def _spread(e: Emitter, a: Args) -> str:
    correction = 1.0 if a["correction"] is None else float(a["correction"])
    keep = "true" if a["keepdim"] else "false"
    return f"ops::var({e.ref(a['self'])}, &{axes(e, a['self'], a['dim'])}, {correction!r}, {keep})?"


@op("aten.var.correction")
def var(e: Emitter, a: Args) -> str:
    return _spread(e, a)


@op("aten.std.correction")
def std(e: Emitter, a: Args) -> str:
    return f"ops::sqrt(&{_spread(e, a)})?"


@op("aten.var_mean.correction")
def var_mean(e: Emitter, a: Args) -> list[str]:
    return [_spread(e, a), _mean_beside(e, a)]


@op("aten.std_mean.correction")
def std_mean(e: Emitter, a: Args) -> list[str]:
    return [f"ops::sqrt(&{_spread(e, a)})?", _mean_beside(e, a)]


def _mean_beside(e: Emitter, a: Args) -> str:
    keep = "true" if a["keepdim"] else "false"
    return f"ops::mean({e.ref(a['self'])}, &{axes(e, a['self'], a['dim'])}, {keep})?"


@op("aten.linalg_vector_norm.default")
def vector_norm(e: Emitter, a: Args) -> str:
    a["dtype"]
    return _norm(e, a, a["ord"])


@op("aten.norm.ScalarOpt_dim")
def norm(e: Emitter, a: Args) -> str:
    return _norm(e, a, 2 if a["p"] is None else a["p"])


def _norm(e: Emitter, a: Args, order: float) -> str:
    keep = "true" if a["keepdim"] else "false"
    x = cast(e, a["self"], a.output.dtype)
    return f"ops::norm({x}, {rust.float_literal(float(order))}, &{axes(e, a['self'], a['dim'])}, {keep})?"


@op("aten.max.dim")
def max_dim(e: Emitter, a: Args) -> Several:
    return _along(e, a, "max_dim")


@op("aten.min.dim")
def min_dim(e: Emitter, a: Args) -> Several:
    return _along(e, a, "min_dim")


def _along(e: Emitter, a: Args, name: str) -> Several:
    keep = "true" if a["keepdim"] else "false"
    return Several(f"ops::{name}({e.ref(a['self'])}, {axes(e, a['self'], a['dim'])[0]}, {keep})?")


@op("aten.sort.default", "aten.sort.stable")
def sort(e: Emitter, a: Args) -> Several:
    _any_order_is_stable(a)
    descending = "true" if a["descending"] else "false"
    return Several(f"ops::sort({e.ref(a['self'])}, {axes(e, a['self'], a['dim'])[0]}, {descending})?")


@op("aten.topk.default")
def topk(e: Emitter, a: Args) -> Several:
    a["sorted"]
    largest = "true" if a["largest"] else "false"
    k = e.size(a["k"], "k")
    return Several(f"ops::topk({e.ref(a['self'])}, {k}, {axes(e, a['self'], a['dim'])[0]}, {largest})?")


def _any_order_is_stable(a: Args) -> None:
    if "stable" in a.values:
        a["stable"]


@op("aten.argsort.default", "aten.argsort.stable")
def argsort(e: Emitter, a: Args) -> str:
    _any_order_is_stable(a)
    descending = "true" if a["descending"] else "false"
    return f"ops::argsort({e.ref(a['self'])}, {axes(e, a['self'], a['dim'])[0]}, {descending})?"


def _arg_extreme(e: Emitter, a: Args, name: str) -> str:
    keep = "true" if a["keepdim"] else "false"
    if a["dim"] is None:
        text = f"ops::{name}(&{e.receiver(a['self'])}.flatten_all()?, 0, false)?"
        return f"{text}.reshape({e.shape(a.output.shape)})?" if a.output.rank else text
    return f"ops::{name}({e.ref(a['self'])}, {axes(e, a['self'], a['dim'])[0]}, {keep})?"


@op("aten.argmax.default")
def argmax(e: Emitter, a: Args) -> str:
    return _arg_extreme(e, a, "argmax")


@op("aten.argmin.default")
def argmin(e: Emitter, a: Args) -> str:
    return _arg_extreme(e, a, "argmin")


@op("aten.diff.default")
def diff(e: Emitter, a: Args) -> str:
    dim = axes(e, a["self"], a["dim"])[0]
    parts: list[g.Ref] = [part for part in (a["prepend"], a["self"], a["append"]) if part is not None]
    text = e.ref(parts[0])
    if len(parts) > 1:
        text = f"&Tensor::cat(&[{', '.join(e.ref(part) for part in parts)}], {dim})?"
    # The runtime crate takes u8 for bools, whose difference is whether they differ.
    wraps = e.meta(a["self"]).dtype == "uint8"
    text = f"&ops::to_dtype({text}, DType::I64)?" if wraps else text
    for _ in range(a["n"]):
        text = f"&ops::diff({text}, {dim})?"
    return f"ops::to_dtype({text}, DType::U8)?" if wraps else text.removeprefix("&")
