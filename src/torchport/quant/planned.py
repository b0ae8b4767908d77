"""A plan that was run: the mix that is expected to keep to a budget, measured, and mended until it does."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from torchport.quant.measuring import FLOATS
from torchport.quant.planning import Choice, Planned, frontier, within_bytes, within_error
from torchport.quant.results import Plan, SchemeDrift

TRIES = 6
MARGIN = 0.9
"""Of the error that is aimed at, if the last plan made more than it may."""

Run = Callable[[dict[str, str]], SchemeDrift]


def plan_for(
    choices: Mapping[str, list[Choice]],
    *,
    fixed_bytes: int,
    budget: float | None,
    max_drift: float | None,
    measure: Run,
) -> Plan:
    """The plan for a number of bytes, or for a drift."""
    if budget is not None:
        return _for_bytes(choices, fixed_bytes, budget, measure)
    assert max_drift is not None
    return _for_drift(choices, max_drift, measure)


def _for_bytes(choices: Mapping[str, list[Choice]], fixed_bytes: int, budget: float, measure: Run) -> Plan:
    planned = within_bytes(choices, budget - fixed_bytes)
    if planned is None:
        smallest = next(frontier(choices)).bytes + fixed_bytes
        sizes = f"{smallest / 1e6:.2f} MB, {fixed_bytes / 1e6:.2f} MB of it weights that stay floats"
        note = f"the smallest mix takes up {sizes}"
        return Plan(met=False, asked=f"{budget / 1e6:g} MB", note=note)
    drift = measure(_blocks(planned))
    return Plan(
        met=drift.bytes <= budget, asked=f"{budget / 1e6:g} MB", expected_mse=planned.error, drift=drift
    )


def _for_drift(choices: Mapping[str, list[Choice]], most: float, measure: Run) -> Plan:
    aimed, drift, planned = math.inf, None, next(frontier(choices))
    for _ in range(TRIES):
        drift = measure(_blocks(planned))
        share = relative(drift)
        if share <= most:
            return Plan(met=True, asked=_percent(most), expected_mse=planned.error, drift=drift)
        signal = drift.outputs.mse / share**2 if share > 0 else 0.0
        aimed = min(aimed, most**2 * signal, planned.error) * (MARGIN if aimed < math.inf else 1.0)
        found = within_error(choices, aimed)
        if found is None:
            break
        planned = found
    note = "no mix that was tried keeps to it"
    return Plan(met=False, asked=_percent(most), expected_mse=planned.error, drift=drift, note=note)


def relative(drift: SchemeDrift) -> float:
    """The RMS error of the output as a share of its RMS; infinite if it is not known."""
    sqnr = drift.outputs.sqnr_db
    return math.inf if sqnr != sqnr else 10 ** (-sqnr / 20)


def _blocks(planned: Planned) -> dict[str, str]:
    return {name: form for name, form in planned.mix.items() if form != FLOATS}


def _percent(share: float) -> str:
    return f"{100 * share:g} % of the output's RMS"
