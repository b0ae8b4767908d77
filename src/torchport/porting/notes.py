"""What is true of a port beside the verdict, and a user should know: one sentence each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torchport.capture.assumed import Assumed, FixedAxis
from torchport.capture.graph import Graph, Ref, refs
from torchport.capture.manifest import read_manifest
from torchport.capture.unrolled import steps_written_out
from torchport.runs.folder import RunFolder
from torchport.runs.report import Report

_NAMED = 3
"""How many of a kind a sentence names."""


def notes_on(files: RunFolder) -> tuple[str, ...]:
    """What is true of the port beside the verdict."""
    graph, manifest = read_manifest(files.manifest)
    mapping = manifest.get("mapping")
    return (
        *([mapping] if mapping else []),
        *_notes_on_what_was_assumed(manifest),
        *_notes_on_state(manifest),
        *_notes_on_idle_bodies(manifest),
        *_notes_on_what_is_unknown(manifest),
        *_notes_on_conditions(graph),
        *dict.fromkeys(_notes_on_free_signs(graph)),
        *dict.fromkeys(_notes_on_loops(graph)),
    )


def notes_on_the_program(report: Report) -> tuple[str, ...]:
    """A target may leave unsaid what its artifact gives in the end."""
    if report.program is not None or report.stopped is not None:
        return ()
    return ("the port does not say what it gives in the end: only what its model computes is proven",)


def _notes_on_state(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """What the capture says of buffers that the model writes to."""
    writes = manifest.get("writes", [])
    if not writes:
        return ()
    state = f"the model writes to {', '.join(writes)} when it is called, and the port does not"
    return (f"{state}: one call is proven, what is kept for the next is not",)


def _notes_on_idle_bodies(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """What the capture of these inputs says of branches and loops that did not run."""
    idle = manifest.get("idle", [])
    if not idle:
        return ()
    missing = f"{', '.join(idle)} did not run on these inputs, so nothing is proven of what is computed there"
    return (f"{missing}: check the port on inputs that take the other way, too",)


def _notes_on_loops(graph: Graph) -> Iterator[str]:
    """Which loops of Python run as often as they did on the example inputs, and no other number of times."""
    for path, source, count in steps_written_out(graph):
        place = f"{path or graph.root.class_name}{f' ({source})' if source else ''}"
        said = f"{place} repeats one step {count} times, as torch.export wrote it out"
        yield f"{said}: the port is made for that length alone; a scan of torch._higher_order_ops runs at any length"


def _notes_on_conditions(graph: Graph) -> Iterator[str]:
    """Which sizes the port refuses, because the model decides by a size."""
    for condition in graph.conditions:
        if condition.is_limit and condition.source is None:
            continue  # An operation of torch has that limit, and not the model.
        place = f" ({condition.source})" if condition.source else ""
        said = f"the port is made for inputs with {condition}{place}, and refuses others"
        yield f"{said}: there the model may do something else"


_WITH_SIGNS = {
    "aten._linalg_svd.default": (0, 2),
    "aten.linalg_svd.default": (0, 2),
    "aten._linalg_eigh.default": (1,),
    "aten.linalg_eigh.default": (1,),
}
"""Operation → which of its results are vectors that are right with either sign."""


def _notes_on_free_signs(graph: Graph) -> Iterator[str]:
    """Where vectors are computed of which only the line is determined, and read."""
    for module in graph.modules.values():
        read = {*refs([[node.args, node.kwargs] for node in module.nodes]), *refs(list(module.outputs))}
        for node in module.nodes:
            if any(Ref(node.name, index) in read for index in _WITH_SIGNS.get(node.op, ())):
                place = f" ({node.source})" if node.source else ""
                said = (
                    f"the vectors of {node.op}{place} are as right with the other sign, which LAPACK chooses"
                )
                yield f"{said}: a port that has others differs where the sign counts, and is not wrong for that"


def _notes_on_what_is_unknown(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """Why torch.export could not follow the model, and what to write instead."""
    error = manifest.get("export_error")
    if error is None:
        return ()
    place = f" ({error['where']})" if error["where"] else ""
    return (f"{error['message']}{place}: {error.get('fix') or 'see the TODOs'}",)


def _notes_on_what_was_assumed(manifest: Mapping[str, Any]) -> Iterator[str]:
    """What the capture took for granted."""
    assumed = Assumed.model_validate(manifest.get("assumed") or {})
    if assumed.training:
        yield "the model came in training mode, and was taken in eval mode: call model.eval() to say so yourself"
    if assumed.constants:
        several = len(assumed.constants) > 1
        given = _some([f"{name}={value}" for name, value in assumed.constants.items()])
        kind = "are no tensors, and became constants" if several else "is no tensor, and became a constant"
        yield f"{given} {kind} of the port"
    yield from (_fixed(axis) for axis in assumed.fixed)


def _fixed(axis: FixedAxis) -> str:
    why = f" ({axis.why})" if axis.why else ""
    return (
        f"axis {axis.axis} of {axis.input} could not be left free{why}: the port takes only {axis.size} there"
    )


def _some(items: Sequence[str]) -> str:
    """The first few, and how many more there are."""
    more = len(items) - _NAMED
    named = ", ".join(items[:_NAMED])
    return named if more <= 0 else f"{named} and {more} more"
