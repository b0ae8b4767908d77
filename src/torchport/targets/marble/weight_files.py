"""Models from files: a SPEC, or a file of weights for the model of a SPEC. No code in a file is ever run.

In: what the user named. Out: the model and its example inputs, with the weights of the file.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from torchport.capture.spec import Subject, load_spec
from torchport.errors import UsageError, WeightsError

SUFFIXES = (".pt", ".pth", ".bin", ".ckpt", ".safetensors", ".pt2")
_NESTED = ("state_dict", "model_state_dict", "model")
"""What training code calls the state dict in a checkpoint that has more."""
_AS_STATE_DICT = (
    "Save its weights with torch.save(model.state_dict(), FILE), and give that with --model file.py:callable."
)


def is_file_of_weights(text: str) -> bool:
    return Path(text).suffix.lower() in SUFFIXES


def subject_of(pytorch: str, spec: str | None) -> tuple[Subject, dict[str, Tensor] | None]:
    """The model that the user named, its example inputs, and the weights to fill it with, if they are in a file."""
    if not is_file_of_weights(pytorch):
        if spec is not None:
            raise UsageError(
                "TP0801",
                f"--pytorch {pytorch} names a model already, and --model {spec} another",
                fix="Give --model only if --pytorch is a file of weights.",
            )
        return load_spec(pytorch), None
    if spec is None:
        raise UsageError(
            "TP0801",
            f"{pytorch} has weights only: neither the code of the model nor the shapes of its inputs are in it",
            fix="Say which model they are for: --model file.py:callable, which returns (model, args).",
        )
    weights = read_weights(Path(pytorch))
    return load_spec(spec), weights


def read_weights(path: Path) -> dict[str, Tensor]:
    """The state dict in a file. A file that needs code to be loaded is refused."""
    if not path.is_file():
        raise _unreadable(path, "there is no such file", "Check the path.")
    if path.suffix.lower() == ".pt2":
        raise _unreadable(path, "it is an exported program, which torchport does not load", _AS_STATE_DICT)
    try:
        loaded = load_file(path) if path.suffix == ".safetensors" else _unpickled(path)
    except (SafetensorError, OSError) as error:
        raise _unreadable(path, str(error)) from error
    return _state_dict(loaded, path)


def _unpickled(path: Path) -> Any:
    try:
        with warnings.catch_warnings(action="ignore"):
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises errors of many classes here.
        needed = re.search(r"GLOBAL (\S+) was not an allowed|(TorchScript) archive", str(error))
        if needed:
            why = f"it is a whole model and not its weights: to load it, code would be run ({needed[1] or needed[2]})"
            raise _unreadable(path, why, _AS_STATE_DICT) from error
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise _unreadable(path, f"it is cut off or no PyTorch checkpoint: {first}") from error


def _state_dict(loaded: Any, path: Path) -> dict[str, Tensor]:
    """The tensors by name; those of a checkpoint that has more are looked for under the usual names."""
    if isinstance(loaded, Mapping):
        if loaded and all(isinstance(value, Tensor) for value in loaded.values()):
            return {str(name): value for name, value in loaded.items()}
        for name in _NESTED:
            if isinstance(loaded.get(name), Mapping):
                return _state_dict(loaded[name], path)
    keys = f" with {', '.join(map(str, list(loaded)[:5]))}" if isinstance(loaded, Mapping) else ""
    raise _unreadable(path, f"it is no state dict, but a {type(loaded).__name__}{keys}", _AS_STATE_DICT)


def fill(model: nn.Module, weights: Mapping[str, Tensor], path: str, may_lack: Collection[str] = ()) -> None:
    """Puts the weights into the model. Each must be there, with its shape, but for those that may be lacking."""
    own = model.state_dict()
    missing = [name for name in own if name not in weights and name not in may_lack]
    unknown = [name for name in weights if name not in own]
    if missing or unknown:
        told = [
            f"{what} {', '.join(names[:3])}{' …' if len(names) > 3 else ''}"
            for what, names in (("has no", missing), ("has, and the model has not,", unknown))
            if names
        ]
        raise WeightsError("TP0320", f"{Path(path).name} {'; it '.join(told)}", where=path)
    for name, tensor in weights.items():
        if own[name].shape != tensor.shape:
            shapes = f"{list(tensor.shape)} in {Path(path).name}, and {list(own[name].shape)} in the model"
            raise WeightsError("TP0321", f"{name} is of shape {shapes}", where=path)
    model.load_state_dict(dict(weights), strict=False)


def _unreadable(path: Path, why: str, fix: str | None = None) -> WeightsError:
    return WeightsError("TP0322", f"{path} cannot be read: {why}", where=str(path), fix=fix)
