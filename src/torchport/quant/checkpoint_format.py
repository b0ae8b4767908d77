"""What a checkpoint of AWQ or GPTQ says of how it is packed, in the JSON files beside it.

The tensors alone do not show it: those of `gptq` have the zeros less one, those of `gptq_v2` have them as they are.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torchport.errors import QuantError

_FILES = ("quantize_config.json", "quant_config.json", "config.json")
_INSIDE = "quantization_config"
_ZEROS_ARE_LESS_ONE = {"gptq": True, "gptq_v2": False}
_AWQ_LAYOUTS = ("gemm", "exllama", "ipex")
"""The names of versions that have the layout of `gemm`; the others order their bits otherwise."""


def zeros_are_less_one(folder: Path) -> bool:
    """Whether the zeros of GPTQ layers in a folder are stored less one, as they are if nothing says otherwise.

    Raises a QuantError if a file there names a packing that is not known.
    """
    found = True
    for name in _FILES:
        path = folder / name
        if not path.is_file():
            continue
        said = _said(path)
        method = str(said.get("quant_method", "gptq")).lower()
        if method == "awq":
            _must_be_known(path, "version", str(said.get("version", "gemm")).lower(), _AWQ_LAYOUTS)
            continue
        _must_be_known(path, "quant_method", method, ("gptq", "awq"))
        if said.get("is_marlin_format"):
            raise _unknown(path, "is_marlin_format is true", tuple(_ZEROS_ARE_LESS_ONE))
        if "checkpoint_format" in said:
            form = str(said["checkpoint_format"]).lower()
            _must_be_known(path, "checkpoint_format", form, tuple(_ZEROS_ARE_LESS_ONE))
            found = _ZEROS_ARE_LESS_ONE[form]
    return found


def _said(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        said = data.get(_INSIDE, {}) if path.name == "config.json" else data
        if isinstance(said, dict):
            return said
    except (OSError, UnicodeDecodeError, ValueError, AttributeError) as error:
        raise QuantError("TP0354", f"{path.name} cannot be read: {error}", where=str(path)) from error
    raise QuantError("TP0354", f"{path.name} has a {_INSIDE} that is no JSON object", where=str(path))


def _must_be_known(path: Path, key: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise _unknown(path, f"{key} is {value!r}", known)


def _unknown(path: Path, what: str, known: tuple[str, ...]) -> QuantError:
    return QuantError(
        "TP0354",
        f"{path.name} says that {what}; read are {', '.join(known)}",
        where=str(path),
        fix="Convert the checkpoint with the tool that wrote it.",
    )
