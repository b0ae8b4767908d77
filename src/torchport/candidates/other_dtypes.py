"""What a candidate returns in another dtype than the reference: it passes if the numbers do, and a report says so."""

from __future__ import annotations

from torchport.candidates.golden import GoldenPlan
from torchport.candidates.left_out import named
from torchport.parity.dtypes import name_of


def notes_on_dtypes(plan: GoldenPlan, precision: str | None) -> tuple[str, ...]:
    """For each dtype that is not that of the reference, a note with the layers that return it.

    `precision` is that of a candidate whose weights have fewer digits, which the rule of the report names.
    """
    found: dict[tuple[str, str], dict[str, None]] = {}
    for name, call in plan.calls.items():
        for key in call.outputs:
            dtype, golden = plan.dtypes.get(key), name_of(plan.value(key).dtype)
            if dtype is not None and name_of(dtype) not in (golden, precision):
                found.setdefault((name_of(dtype), golden), {})[name] = None
    return tuple(
        f"{dtype} is returned in place of {golden}, which passes if the numbers do: {named(names)}"
        for (dtype, golden), names in found.items()
    )
