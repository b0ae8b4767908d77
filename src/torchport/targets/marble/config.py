"""A configuration for converting a model, in YAML: what to add to the model, what to check, and what to write.

In: a path, or the same as a mapping. Out: a `Config`. A setting that is not known is refused, with the one that was
meant.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from torchport.errors import SpecError
from torchport.targets.marble.tolerances import checked_tolerance
from torchport.targets.registry import expected_value

Tolerance = Annotated[float, Field(ge=0, allow_inf_nan=False)]
EncodingKind = Literal["sinusoidal", "learned"]


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class PositionalEncoding(_Settings):
    """What is added to the output of an embedding, so that a token knows its place."""

    kind: EncodingKind
    layer: str | None = None
    """The path of the embedding; None for the only one."""
    max_length: Annotated[int, Field(gt=0)] | None = None
    """The most tokens; None for as many as the example inputs have."""
    seed: int = 0
    """Of a learned encoding."""


class Tolerances(_Settings):
    """The tolerance for each kind of device; None for the noise floor."""

    cpu: Tolerance | None = None
    gpu: Tolerance | None = None

    def for_device(self, device: str) -> float | None:
        return self.cpu if device == "cpu" else self.gpu


class SummaryFiles(_Settings):
    """Where the summary is written."""

    as_json: str | None = Field(default=None, alias="json")
    as_csv: str | None = Field(default=None, alias="csv")
    plot: str | None = None


class Config(_Settings):
    """All settings of a conversion. None and False leave a thing out."""

    name: str | None = None
    output: str | None = None
    positional_encoding: PositionalEncoding | None = None
    tolerance: Tolerances = Tolerances()
    is_validated: bool = Field(default=False, alias="validate")
    summary: SummaryFiles = SummaryFiles()
    journal: bool = False


def read_config(given: Config | Mapping[str, Any] | str | Path | None) -> Config:
    """The configuration in a file or a mapping; all defaults if there is none."""
    if given is None or isinstance(given, Config):
        return given or Config()
    if isinstance(given, Mapping):
        return _checked(given, None)
    path = Path(given)
    try:
        data = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except (OSError, UnicodeError, yaml.YAMLError, RecursionError) as error:
        raise SpecError("TP0108", f"the configuration cannot be read: {error}", where=str(path)) from error
    return _checked({} if data is None else data, path)


def with_flags(
    config: Config,
    *,
    output: Path | None = None,
    encoding: EncodingKind | None = None,
    tolerance: float | None = None,
    is_validated: bool = False,
    as_json: Path | None = None,
    as_csv: Path | None = None,
    plot: Path | None = None,
    journal: bool = False,
) -> Config:
    """The configuration with what a command line gave, which counts more."""
    positions = config.positional_encoding
    if encoding is not None:
        kept = {} if positions is None else positions.model_dump()
        positions = PositionalEncoding(**{**kept, "kind": encoding})
    if tolerance is not None:
        number = checked_tolerance(tolerance, "--tolerance")
        config = config.model_copy(update={"tolerance": Tolerances(cpu=number, gpu=number)})
    files = {"as_json": as_json, "as_csv": as_csv, "plot": plot}
    summary = config.summary.model_copy(update={name: str(path) for name, path in files.items() if path})
    return config.model_copy(
        update={
            "output": config.output if output is None else str(output),
            "positional_encoding": positions,
            "is_validated": config.is_validated or is_validated,
            "summary": summary,
            "journal": config.journal or journal,
        }
    )


def _checked(data: Any, path: Path | None) -> Config:
    try:
        return Config.model_validate(data)
    except ValidationError as error:
        wrong = "; ".join(dict.fromkeys(_sentence(one) for one in error.errors()))
        where = None if path is None else str(path)
        raise SpecError("TP0108", f"the configuration is wrong: {wrong}", where=where) from error


def _sentence(error: ErrorDetails) -> str:
    place = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        known = _known_beside(error["loc"])
        near = get_close_matches(str(error["loc"][-1]), known, n=1)
        meant = f"did you mean {near[0]}?" if near else f"known here are {', '.join(known)}"
        return f"there is no setting {place}; {meant}"
    if error["type"] == "missing":
        return f"{place} is missing"
    if not place:
        return "it is not a mapping from settings to values"
    return f"{place} is {error['input']!r}, and {expected_value(error['type'], error['msg'])}"


def _known_beside(place: tuple[int | str, ...]) -> list[str]:
    """The settings that there are at the level of one that is not known."""
    inside: dict[str, type[BaseModel]] = {
        "positional_encoding": PositionalEncoding,
        "tolerance": Tolerances,
        "summary": SummaryFiles,
    }
    level = inside[str(place[-2])] if len(place) > 1 else Config
    return [field.alias or name for name, field in level.model_fields.items()]


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """YAML without surprises: 1e-5 is a number, and a setting that is given twice is an error."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.YAMLError(f"{key} is given twice{node.start_mark}")
        made: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return made


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+"), list("-+.0123456789")
)
