"""Products in which each group of rows has a matrix of its own: mixtures of experts."""

from __future__ import annotations

from torchport.targets.candle.arguments import Args
from torchport.targets.candle.body import Unsupported
from torchport.targets.candle.code import Code, call
from torchport.targets.candle.emit import Emitter
from torchport.targets.candle.registry import op, rows

rows({"transformers.grouped_mm_fallback.default": "ops::grouped_mm({input}, {weight}, {offs})?"})


@op("aten._grouped_mm.default")
def grouped_mm(e: Emitter, a: Args) -> Code:
    ranks = e.meta(a["self"]).rank, e.meta(a["mat2"]).rank
    if ranks != (2, 3) or a["offs"] is None:
        raise Unsupported(f"its operands have {ranks[0]} and {ranks[1]} axes; 2 and 3 are known")
    if a.output.dtype == e.meta(a["self"]).dtype:
        a.ignore("out_dtype")
    return call("ops::grouped_mm", e.ref(a["self"]), e.ref(a["mat2"]), e.ref(a["offs"]))
