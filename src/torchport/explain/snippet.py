"""What is handed over for a failing layer: its tensors, a script that draws them, and the layer as a port of its own.

In: the suspect of the layer. Out: a folder with `tensors.safetensors`, `plot.py`, `rerun.py` and `port`.
"""

from __future__ import annotations

from pathlib import Path
from string import Template

from torchport.explain.suspect import Suspect
from torchport.files import write_atomically
from torchport.trace.writing import write_tensors

_SCRIPTS = Path(__file__).parent / "scripts"
"""Python with placeholders of `string.Template` in its texts."""
SLICE = "port"
"""The folder of the slice in a snippet."""


def write_snippet(folder: Path, layer: str, suspect: Suspect, editable: str | None) -> None:
    """Writes the tensors and the scripts; the slice beside them is written by whoever knows the candidate.

    `editable` is the file of the slice that a user may edit, from the folder of the slice; None if there is none.
    """
    tensors = {
        f"input/{key}": tensor for key, tensor in zip(suspect.slice.inputs, suspect.inputs, strict=True)
    }
    tensors |= {f"golden/{key}": suspect.golden(key) for key in suspect.slice.outputs}
    tensors |= {f"candidate/{key}": tensor for key, tensor in suspect.observed.items()}
    tensors |= {f"weight/{name}": tensor for name, tensor in suspect.stored.items()}
    write_tensors(
        folder / "tensors.safetensors", tensors, {"schema": "1", "layer": layer, "key": suspect.key}
    )
    name = layer.replace('"', "'")
    _write_script(folder, "plot.py", layer=name)
    _write_script(folder, "rerun.py", layer=name, edit=_edit(editable))


def _edit(editable: str | None) -> str:
    if editable is None:
        return "Run this again after a change: only this layer runs."
    return f"Edit {SLICE}/{editable}, then run this again: only this layer runs."


def _write_script(folder: Path, name: str, **texts: str) -> None:
    template = Template((_SCRIPTS / name).read_text(encoding="utf-8"))
    write_atomically(folder / name, template.safe_substitute(texts))
