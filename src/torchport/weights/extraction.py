"""The weights of a port, out of a checkpoint, in one stream from file to file."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from torchport.capture.graph import TensorMeta
from torchport.errors import WeightsError
from torchport.events import Say
from torchport.parity import dtypes
from torchport.trace.safetensors_layout import StoredForm
from torchport.weights import suggestions
from torchport.weights.matching import Found, Match, StoredAs, converted
from torchport.weights.stored import InFile, Stored
from torchport.weights.views import pieces
from torchport.weights.writing import Written, write_stream

_EXAMPLES = 3


def extract(
    match: Match, files: Sequence[Path], out: Path, *, stored_as: StoredAs, of: str, say: Say
) -> Written:
    """Writes every weight of a match to a safetensors file. `of` says by which rules the match was made."""
    must_be_ready(match, files)
    for file in files:
        if out.exists() and out.samefile(file):
            raise WeightsError(
                "TP0323", f"{out} is the checkpoint itself", where=str(out), fix="Choose another --out."
            )
    for name, found in match.found.items():
        _must_be_tied(name, found, say)
    tensors = {
        name: (
            _stored_form(match, name, stored_as),
            converted(name, match.wanted[name].form, found.entry, stored_as),
        )
        for name, found in match.found.items()
    }
    facts = [(str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return write_stream(out, tensors, {"format": "pt"}, of=json.dumps([facts, match.prefixes, of]), say=say)


def must_be_ready(match: Match, files: Sequence[Path]) -> None:
    """Raises a WeightsError that names what keeps a match from being complete."""
    where = str(files[0]) + (f" and {len(files) - 1} more" if len(files) > 1 else "")
    if match.others:
        names = ", ".join(repr(prefix) for prefix in match.others)
        raise WeightsError(
            "TP0324",
            f"the checkpoint has the weights under {names}",
            where=where,
            fix=f"Say which: --prefix {match.others[0] or chr(34) * 2}",
        )
    if match.misfits:
        name, why = next(iter(match.misfits.items()))
        advice = next(iter(suggestions.suggested(match, [name])), None)
        raise WeightsError(
            "TP0321",
            f"{name} {why}{_more(match.misfits)}",
            where=where,
            fix=advice and f"Perhaps {advice.text}.",
        )
    if match.missing:
        name = match.missing[0]
        advice = next(iter(suggestions.suggested(match, match.missing)), None)
        whole = "any of the weights" if not match.found else name
        raise WeightsError(
            "TP0320",
            f"the checkpoint does not have {whole}{_more(match.missing) if match.found else f', such as {name}'}",
            where=where,
            fix=_for_missing(match, None if advice is None else advice.text),
        )


def _for_missing(match: Match, suggestion: str | None) -> str | None:
    if suggestion is not None:
        return f"Perhaps {suggestion}; `torchport weights map` writes rules to begin with."
    if all(match.wanted[name].kind == "buffer" for name in match.missing):
        return (
            "If no state dict has these buffers: --recorded-buffers takes them from the recording, or give a second "
            "checkpoint that has them."
        )
    return None


def _more(names: Sequence[str] | dict[str, str]) -> str:
    rest = list(names)[1 : 1 + _EXAMPLES]
    count = len(names) - 1
    return f" (and so for {count} more: {', '.join(rest)}{' …' if count > len(rest) else ''})" if rest else ""


def _stored_form(match: Match, name: str, stored_as: StoredAs) -> StoredForm:
    wanted = match.wanted[name].form
    loaded = stored_as(TensorMeta(wanted.shape, wanted.dtype))
    shape = tuple(int(size) for size in loaded.shape)  # type: ignore[arg-type]
    return StoredForm(loaded.dtype, dtypes.DTYPES[loaded.dtype].itemsize, shape)


def _must_be_tied(name: str, found: Found, say: Say) -> None:
    """Tensors that the port holds to be one must be the same in the checkpoint."""
    for entry in found.also:
        say(f"comparing {name} with {entry.origins[0]}, which is tied to it")
        if not same(found.entry.stored, entry.stored):
            raise WeightsError(
                "TP0326",
                f"the port has one tensor for {found.entry.origins[0]} and {entry.origins[0]}, which differ",
                where=name,
                fix="Record the model without tied weights, or drop the one that is not to be used by a rule.",
            )


def same(first: Stored, second: Stored) -> bool:
    """Whether two tensors are the same, bit by bit, read a piece at a time."""
    if isinstance(first, InFile) and first == second:
        return True
    if first.form != second.form:
        return False
    pairs = itertools.zip_longest(_rows(first), _rows(second))
    return all(one is not None and other is not None and np.array_equal(one, other) for one, other in pairs)


def _rows(stored: Stored) -> Iterator[np.ndarray]:
    """The bytes in pieces of one length, whatever pieces they are read in."""
    length, left = 2**22, np.empty(0, np.uint8)
    for piece in pieces(stored):
        left = np.concatenate([left, np.ascontiguousarray(piece).view(np.uint8)])
        while len(left) >= length:
            yield left[:length]
            left = left[length:]
    yield left
