"""The last expression of `forward`."""

from __future__ import annotations

from torchport.capture import graph as g
from torchport.targets.candle.code import Code, code, tensors_of
from torchport.targets.candle.emit import Emitter


def write_result(e: Emitter) -> None:
    outputs: list[g.Ref] = list(e.module.outputs)
    e.body.outputs = len(outputs)
    if len(outputs) > 1:
        for ref in outputs:
            e.name_if_expression(ref)
    values = [_to_give_away(e, ref, outputs) for ref in outputs]
    result = tensors_of(values)
    if e.checks != "none":
        e.body.result = code("check!(self.probe, {})", result)
    elif len(values) == 1 and result.endswith("?"):
        e.body.result = result.removesuffix("?").without_outer_parentheses()
    else:
        e.body.result = code("Ok({})", result)


def _to_give_away(e: Emitter, ref: g.Ref, outputs: list[g.Ref]) -> Code:
    """The value as a Tensor that the caller gets; a clone if `forward` cannot give the value itself away."""
    value = e.values[ref]
    is_kept = value.form == "ref" or value.is_field or (value.form == "owned" and outputs.count(ref) > 1)
    return value.code.cloned if is_kept else value.code
