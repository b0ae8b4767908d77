"""What `torchport weights` calls: a checkpoint looked into, mapped, and extracted for a port.

Each function takes what the command line gives, and returns what the command prints.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torchport.capture.file_names import capture_name, captured_file
from torchport.capture.graph import TensorMeta
from torchport.capture.manifest import read_manifest
from torchport.events import Message, Watcher
from torchport.files import write_atomically
from torchport.targets.base import StoresOtherwise
from torchport.targets.registry import DEFAULT, find_target
from torchport.weights import suggestions
from torchport.weights.checkpoint import Checkpoint, opened
from torchport.weights.extraction import extract
from torchport.weights.matching import Match, match
from torchport.weights.origin import Origin
from torchport.weights.rules import Rules, read_rules


def inspect_checkpoint(paths: Sequence[Path]) -> dict[str, Any]:
    """The files of a checkpoint, its sections, and the name, dtype, shape and size of each tensor."""
    with opened(paths) as checkpoint:
        tensors = {
            name: {"dtype": form.dtype, "shape": list(form.shape), "bytes": form.numel * form.itemsize}
            for name, form in ((name, stored.form) for name, stored in checkpoint.tensors.items())
        }
        return {
            "files": [str(file) for file in checkpoint.files],
            "count": len(tensors),
            "bytes": sum(one["bytes"] for one in tensors.values()),
            "sections": checkpoint.sections(),
            "skipped": list(checkpoint.skipped),
            "tensors": tensors,
        }


def map_checkpoint(
    paths: Sequence[Path], manifest: Path, *, out: Path | None, prefixes: Sequence[str]
) -> dict[str, Any]:
    """Rules to begin with, written to `out` if that is given."""
    graph, _ = read_manifest(manifest)
    with opened(paths) as checkpoint, _recorded(manifest) as recorded:
        found = match(graph, checkpoint, Rules(), tuple(prefixes), recorded.tensors)
        text = suggestions.starting_rules(found, paths[0].name)
        if out is not None:
            write_atomically(out, text)
        return {**_facts(found), "rules": text, "file": None if out is None else str(out)}


def extract_weights(
    paths: Sequence[Path],
    manifest: Path,
    *,
    out: Path | None,
    rules: Path | None,
    prefixes: Sequence[str],
    recorded_buffers: bool = False,
    target: str | None = None,
    watch: Watcher,
) -> dict[str, Any]:
    """Writes the weights of a port to `out`; without it, only says what would be."""
    graph, _ = read_manifest(manifest)
    given = Rules() if rules is None else read_rules(rules)
    to = find_target(target or DEFAULT)

    def stored_as(meta: TensorMeta) -> TensorMeta:
        return to.stored_as(meta) if isinstance(to, StoresOtherwise) else meta

    with opened(paths) as checkpoint, _recorded(manifest) as recorded:
        found = match(
            graph,
            checkpoint,
            given,
            tuple(prefixes),
            recorded.tensors,
            recorded_buffers=recorded_buffers,
        )
        if out is None:
            return {"status": "ready" if found.is_ready else "incomplete", **_facts(found)}
        written = extract(
            found,
            (*checkpoint.files, *recorded.files),
            out,
            stored_as=stored_as,
            of=given.model_dump_json(),
            say=lambda text: watch(Message(text)),
        )
        Origin.of(paths, checkpoint.files, found.prefixes).write(out)
        return {
            "status": "extracted",
            **_facts(found),
            "file": str(out),
            "bytes": written.bytes,
            "resumed_bytes": written.resumed_bytes,
            "seconds": written.seconds,
        }


def _facts(found: Match) -> dict[str, Any]:
    return {
        "prefix": list(found.prefixes),
        "ambiguous": list(found.others),
        "matched": len(found.found) - len(found.misfits),
        "recorded": list(found.recorded),
        "cast": found.cast(),
        "missing": list(found.missing),
        "misfits": found.misfits,
        "left_over": list(found.left_over),
        "suggestions": [one.text for one in suggestions.suggested(found)],
    }


@contextmanager
def _recorded(manifest: Path) -> Iterator[Checkpoint]:
    """The tensors that were recorded beside a manifest."""
    name = capture_name(manifest, "manifest")
    file = None if name is None else captured_file(manifest.parent, name, "weights")
    if file is None or not file.is_file():
        yield Checkpoint((), {}, ())
        return
    with opened([file]) as weights:
        yield weights
