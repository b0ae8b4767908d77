"""The operations inside calls whose values traces hold, which count as the calls' own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from torchport.trace.plan import Call
from torchport.trace.reading import Trace


def operations_by_call(
    golden: Trace,
    candidate: Trace,
    calls: Iterable[Call],
    order: Mapping[str, Sequence[str]],
    always: Iterable[str] = (),
) -> dict[str, list[str]]:
    """The keys of the operations that both traces hold, by call, in the order of execution.

    Those in `always` are there as well, whatever the candidate holds.

    `order` lists the operations of each call. An operation that is a call itself is judged as that.
    """
    outputs = {key for call in calls for key in call.outputs}
    found: dict[str, list[str]] = defaultdict(list)
    for key in dict.fromkeys([*candidate, *always]):
        call, slash, _ = key.rpartition("/")
        if slash and key not in outputs and key in golden:
            found[call].append(key)
    for call, keys in found.items():
        place = {f"{call}/{node}": index for index, node in enumerate(order.get(call, ()))}
        keys.sort(key=lambda key: (place.get(key, len(place)), key))
    return found
