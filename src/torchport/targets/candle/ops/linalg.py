"""Factorisations and solutions of dense matrices. A matrix that has none is an error in Rust, never a wrong result."""

from __future__ import annotations

from torchport.targets.candle.arguments import Args
from torchport.targets.candle.body import Unsupported
from torchport.targets.candle.code import Code, call, code
from torchport.targets.candle.emit import Emitter
from torchport.targets.candle.operands import is_read
from torchport.targets.candle.registry import Several, op, rows

rows(
    {
        "aten.linalg_solve_triangular.default": "ops::solve_triangular({self}, {B}, {upper:bool}, {left:bool}, "
        "{unitriangular:bool})?",
        "aten.cholesky_solve.default": "ops::cholesky_solve({self}, {input2}, {upper:bool})?",
        "aten.linalg_matrix_exp.default": "ops::matrix_exp({self})?",
    }
)


def _must_be_unread(e: Emitter, a: Args, *indices: int) -> None:
    if any(is_read(e, a, index) for index in indices):
        raise Unsupported("factors that it keeps for gradients are read")


def _no_faults(e: Emitter, a: Args, index: int, like: str) -> Code:
    """Zeros: what would be found wrong with a matrix is an error instead."""
    meta = a.node.outputs[index]
    assert meta is not None
    return call("Tensor::zeros", e.shape(meta.shape), "DType::I32", e.device_of(a[like]))


@op("aten._linalg_det.default")
def det(e: Emitter, a: Args) -> list[Code]:
    _must_be_unread(e, a, 1, 2)
    return [call("ops::det", e.ref(a["A"]))]


@op("aten._linalg_slogdet.default")
def slogdet(e: Emitter, a: Args) -> list[Code]:
    _must_be_unread(e, a, 2, 3)
    e.name_if_expression(a["A"])
    both = call("ops::slogdet", e.ref(a["A"]))
    return [code("{}.0", both), code("{}.1", both)]


@op("aten.linalg_inv_ex.default")
def inverse(e: Emitter, a: Args) -> list[Code]:
    a.ignore("check_errors")
    e.name_if_expression(a["A"])
    return [call("ops::inverse", e.ref(a["A"])), _no_faults(e, a, 1, "A")]


@op("aten._linalg_solve_ex.default")
def solve(e: Emitter, a: Args) -> list[Code]:
    a.ignore("check_errors")
    _must_be_unread(e, a, 1, 2, 3)
    return [call("ops::solve", e.ref(a["A"]), e.ref(a["B"]), a["left"])]


@op("aten.linalg_cholesky_ex.default")
def cholesky(e: Emitter, a: Args) -> list[Code]:
    a.ignore("check_errors")
    e.name_if_expression(a["self"])
    return [call("ops::cholesky", e.ref(a["self"]), a["upper"]), _no_faults(e, a, 1, "self")]


@op("aten.cholesky_inverse.default")
def cholesky_inverse(e: Emitter, a: Args) -> Code:
    e.name_if_expression(a["self"])
    size = e.size(e.meta(a["self"]).shape[-1])
    one = call("Tensor::eye", size, code("{}.dtype()", e.receiver(a["self"])), e.device_of(a["self"]))
    return call("ops::cholesky_solve", one.borrowed, e.ref(a["self"]), a["upper"])


@op("aten.linalg_qr.default")
def qr(e: Emitter, a: Args) -> Several:
    if a["mode"] == "r" and is_read(e, a, 0):
        raise Unsupported("its empty first factor is read")
    return Several(call("ops::qr", e.ref(a["A"]), a["mode"] == "complete"))


@op("aten._linalg_svd.default")
def svd(e: Emitter, a: Args) -> Several:
    a.ignore("driver")
    if not a["compute_uv"]:
        _must_be_unread(e, a, 0, 2)
    return Several(call("ops::svd", e.ref(a["A"]), a["full_matrices"]))


@op("aten._linalg_eigh.default")
def eigh(e: Emitter, a: Args) -> Several:
    if not a["compute_v"]:
        _must_be_unread(e, a, 1)
    return Several(call("ops::eigh", e.ref(a["A"]), a["UPLO"].upper() == "U"))


@op("aten.linalg_lu_factor_ex.default")
def lu_factor(e: Emitter, a: Args) -> Several:
    a.ignore("check_errors")
    _must_be_unread(e, a, 2)
    e.name_if_expression(a["A"])
    factors = call("ops::lu_factor", e.ref(a["A"]), a["pivot"])
    faults = _no_faults(e, a, 2, "A")
    return Several(code("{{ let (lu, pivots) = {}; (lu, pivots, {}) }}", factors, faults))


@op("aten.lu_unpack.default")
def lu_unpack(e: Emitter, a: Args) -> Several:
    if not (a["unpack_data"] and a["unpack_pivots"]):
        raise Unsupported("only a part is unpacked")
    return Several(call("ops::lu_unpack", e.ref(a["LU_data"]), e.ref(a["LU_pivots"])))


@op("aten.linalg_lu.default")
def lu(e: Emitter, a: Args) -> Several:
    factors = call("ops::lu_factor", e.ref(a["A"]), a["pivot"])
    unpacked = call("ops::lu_unpack", "&lu", "&pivots")
    return Several(code("{{ let (lu, pivots) = {}; {} }}", factors, unpacked))


@op("aten.linalg_pinv.atol_rtol_tensor")
def pinv(e: Emitter, a: Args) -> Code:
    if a["hermitian"]:
        raise Unsupported("only one triangle of its matrices is read")
    return call("ops::pinv", e.ref(a["self"]), e.optional_ref(a["atol"]), e.optional_ref(a["rtol"]))
