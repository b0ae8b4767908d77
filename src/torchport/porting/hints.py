"""A hints file: what sizes are called if their value alone does not tell, and which axes are free."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from torchport.errors import SpecError

_FIX = 'write {"dims": {"hidden_size": 1024}, "dynamic": {"input_ids": [0, 1]}}'


def _identifier(name: str) -> str:
    if not name.isidentifier():
        raise ValueError("not an identifier")
    return name


Name = Annotated[str, AfterValidator(_identifier)]
Size = Annotated[int | float, Field(gt=0, allow_inf_nan=False)]
Place = Annotated[str, Field(pattern=r"^\S+\[\d+\]$")]
Places = Annotated[list[Place], Field(min_length=1)]
Axis = Annotated[int, Field(ge=0)]


class Hints(BaseModel):
    """`{"dims": {"hidden_size": 1024}, "dynamic": {"input_ids": [0, 1]}}`, both of them optional.

    Instead of its value, a size may have a list of the weight axes that it is: `["encoder.fc.weight[0]"]`.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    dims: dict[Name, Size | Places] = {}
    dynamic: dict[str, list[Axis]] = {}


def read_hints(path: Path | None) -> dict[str, Any]:
    """The fields of a hints file that are there, checked; none if there is no file."""
    if path is None:
        return {}
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SpecError("TP0107", f"the hints cannot be read: {error}", where=str(path), fix=_FIX) from error
    try:
        return Hints.model_validate(data).model_dump(exclude_unset=True)
    except ValidationError as error:
        # A value that is neither int nor float is two errors, of which one sentence tells.
        wrong = "; ".join(dict.fromkeys(_sentence(one, data) for one in error.errors()))
        raise SpecError("TP0107", f"the hints are wrong: {wrong}", where=str(path), fix=_FIX) from error


def _sentence(error: ErrorDetails, data: Any) -> str:
    match error["loc"]:
        case (field,):
            unknown = error["type"] == "extra_forbidden"
            return f"there is no hint called {field}" if unknown else f"{field} is not an object"
        case ("dims", name, "[key]", *_):
            return f"{name!r} cannot be the name of a size"
        case ("dims", name, *_):
            return f"the size of {name} is {data['dims'][name]!r}"
        case ("dynamic", name, *_):
            return f"the axes of {name} are {data['dynamic'][name]!r}"
        case _:
            return "they are not a JSON object"


def wished_axes(dynamic: str | None, hints: Mapping[str, Any]) -> str | dict[str, tuple[int, ...]] | None:
    """The free axes that were asked for: the option's before the hints'."""
    if dynamic is not None or not hints.get("dynamic"):
        return dynamic
    return {name: tuple(axes) for name, axes in hints["dynamic"].items()}
