"""The report on a port: one typed, versioned model, and the JSON that `--json` prints.

Fields may be added, never renamed. In JSON a number that is not finite is one of the strings
"NaN", "Infinity" and "-Infinity", which `Report.from_json` and Python's `float` read back.
"""

import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_serializer, field_validator

from torchport.errors import CODES, ConvertError, ParityError, UsageError
from torchport.events import STEPS
from torchport.files import write_atomically
from torchport.parity.compare import USUAL
from torchport.parity.drawn import RandomSummary
from torchport.parity.result import Divergence, Layer, Measured, Parity, Program
from torchport.parity.rulebook import NOISE_FLOOR
from torchport.runs.control_flow import ControlFlowSummary
from torchport.targets.base import Timing, Todo

NOTHING = "nothing is proven"
_UNSEEN = re.compile(r"[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""What JSON lets stand in a text although a terminal takes it for a command, or shows what is around it otherwise."""
Status = Literal["pass", "fail", "unsupported", "error"]


class Cost(BaseModel):
    """What a run of the port and of the original takes, with as many threads, where the report was made."""

    model_config = ConfigDict(frozen=True)

    port: Timing
    original: Timing | None = None
    """None if the original was not at hand, or could not be run once more."""


class Report(BaseModel):
    """Whether a port computes what the original computes and, if not, where it first goes wrong."""

    model_config = ConfigDict(
        frozen=True, populate_by_name=True, serialize_by_alias=True, ser_json_inf_nan="strings"
    )

    schema_version: Literal[1] = Field(default=1, alias="schema")
    status: Status
    target: str
    model: str
    rule: str | None = None
    layers: tuple[Layer, ...] = ()
    first_divergence: Divergence | None = None
    todos: tuple[Todo, ...] = ()
    outputs: Measured | None = None
    program: Program | None = None
    """What the program gives in the end; None if the run does not say, as one of an earlier version."""
    compared: int = 0
    stopped: str | None = None
    """What the port said when it stopped before its end."""
    control_flow: tuple[ControlFlowSummary, ...] = ()
    """The layers that run graphs of their own, with these graphs."""
    random: RandomSummary | None = None
    """What the verdict leaves out because it is random; None if the model draws no random numbers."""
    notes: tuple[str, ...] = ()
    """What is true of the port beside the verdict, and a user should know."""
    seconds: dict[str, float] = Field(default_factory=dict)
    """What each step took; a step that was not taken has no entry."""
    cost: Cost | None = None
    """None if it was not measured. It is indicative, and no part of the verdict."""
    report: str | None = None
    """The path of the report that was written, if one was."""
    files: dict[str, str] = Field(default_factory=dict)
    """Where things are, by what they are: project, weights, trace."""

    @field_validator("seconds", mode="before")
    @classmethod
    def _without_steps_not_taken(cls, seconds: Any) -> Any:
        """Reports have null for the usual steps that were not taken."""
        if not isinstance(seconds, dict):
            return seconds
        return {step: taken for step, taken in seconds.items() if taken is not None}

    @field_serializer("seconds")
    def _with_steps_not_taken(self, seconds: dict[str, float]) -> dict[str, float | None]:
        return {**dict.fromkeys(STEPS), **seconds}

    @classmethod
    def of_parity(
        cls,
        parity: Parity,
        *,
        target: str,
        model: str,
        todos: tuple[Todo, ...] = (),
        seconds: Mapping[str, float] | None = None,
        report: Path | None = None,
        files: Mapping[str, Path] | None = None,
        stopped: str | None = None,
    ) -> Self:
        """The report on a port that ran: `pass` only with nothing diverged and nothing to do.

        It is `error` if nothing diverged and there was nothing to compare with, because the original is NaN everywhere.
        """
        return cls(
            status=_status(parity, todos),
            target=target,
            model=model,
            rule=parity.rule,
            layers=parity.layers,
            first_divergence=parity.first_divergence,
            todos=todos,
            outputs=parity.outputs,
            program=parity.program,
            compared=parity.compared,
            notes=_notes(parity),
            stopped=stopped,
            seconds=dict(seconds or {}),
            report=None if report is None else str(report),
            files={name: str(path) for name, path in (files or {}).items()},
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        return cls.model_validate_json(text)

    def to_json(self, indent: int | None = 2) -> str:
        return _UNSEEN.sub(lambda one: f"\\u{ord(one.group()):04x}", self.model_dump_json(indent=indent))

    def write(self, path: Path) -> None:
        """Write the JSON to `path`, whole or not at all."""
        write_atomically(path, self.to_json() + "\n")

    @property
    def passed(self) -> bool:
        return self.status == "pass"

    @property
    def is_all_random(self) -> bool:
        """Whether nothing is proven because every output depends on random numbers."""
        return self.random is not None and not self.random.proven

    def worst_layers(self, number: int) -> list[Layer]:
        """The culprit, the other failed layers, then those whose own error is nearest its limit."""
        culprit = None if self.first_divergence is None else self.first_divergence.layer
        measured = [layer for layer in self.layers if layer.own is not None or not layer.passed]
        return sorted(measured, key=lambda layer: (layer.name != culprit, *_badness(layer)))[:number]

    def raise_for_divergence(self) -> None:
        """Raise a ParityError unless the port is proven."""
        if self.passed:
            return
        if self.first_divergence is not None:
            culprit = self.first_divergence
            message = f"{self.model}: {culprit.place} diverges: {culprit.what}: {culprit.reason}"
            raise ParityError("TP0701", message, where=culprit.source)
        if self.todos:
            operations = ", ".join(sorted({todo.op for todo in self.todos}))
            raise ConvertError("TP0401", f"{self.model}: nothing maps {operations}")
        if self.is_all_random:
            outputs = ", ".join(self.random.outputs) if self.random is not None else ""
            raise ParityError("TP0703", f"{self.model}: {CODES['TP0703'].title}: {outputs}")
        why = next((note for note in self.notes if self.unproven and NOTHING in note), CODES["TP0702"].title)
        raise ParityError("TP0702", f"{self.model}: {why}")

    @property
    def unproven(self) -> bool:
        """Whether there is no verdict, because the original gives NaN everywhere where the port does."""
        return self.status == "error" and any(layer.unproven for layer in self.layers)

    def to_dataframe(self) -> Any:
        """A pandas.DataFrame with a row a layer and columns such as own_max_abs, chained_cosine."""
        try:
            pandas = import_module("pandas")
        except ImportError as error:
            message = "to_dataframe() needs pandas, which is not installed"
            raise UsageError("TP0803", message, fix="Run `pip install 'torchport[dataframe]'`.") from error
        rows = [_row(layer) for layer in self.layers]
        return pandas.DataFrame(rows, columns=_COLUMNS)

    def _repr_html_(self) -> str:
        from torchport.report.notebook import render

        return render(self)


def _badness(layer: Layer) -> tuple[bool, float]:
    if not layer.passed or layer.own is None:
        return layer.passed, 0.0
    return True, -(layer.own.ratio or 0.0)


def _row(layer: Layer) -> dict[str, Any]:
    row: dict[str, Any] = {text: getattr(layer, text) for text in _TEXTS}
    for side, measured in (("own", layer.own), ("chained", layer.chained)):
        for number in _NUMBERS:
            row[f"{side}_{number}"] = None if measured is None else getattr(measured, number)
    return row


_TEXTS = ("name", "type", "passed", "rule", "reason", "source")
_NUMBERS = ("max_abs", "mean_abs", "max_rel", "mse", "rmse", "cosine", "mismatch_pct", "ratio")
_COLUMNS = [*_TEXTS, *(f"{side}_{number}" for side in ("own", "chained") for number in _NUMBERS)]


def _status(parity: Parity, todos: tuple[Todo, ...]) -> Status:
    if parity.passed and not todos:
        return "pass"
    return "error" if parity.unproven and parity.first_divergence is None and not todos else "fail"


def _is_wrong_by_itself(program: Program) -> bool:
    """Whether what is done behind the model is wrong on what the model should have given."""
    is_fault = program.own is None or program.own.passed is False
    return is_fault and not program.passed and not program.is_nan_everywhere


def _notes(parity: Parity) -> tuple[str, ...]:
    notes = []
    if names := parity.unproven:
        notes.append(f"{NOTHING} of {_some(names)}: the original gives NaN everywhere, and so does the port")
    notes += _notes_on_tolerances(parity)
    if parity.without_truth:
        count = f"{parity.without_truth} of {parity.compared} values"
        notes.append(
            f"no float64 truth is known of {count}: these are judged by the tolerances of assert_close at their scale"
        )
    if names := parity.proves_little:
        notes.append(
            f"eager PyTorch itself loses more than half of the digits in {_some(names)}: there a pass proves little"
        )
    notes += parity.not_emulated
    program, culprit = parity.program, parity.first_divergence
    if program is not None and _is_wrong_by_itself(program) and (culprit is None or culprit.kind == "own"):
        at = "" if program.source is None else f" ({program.source})"
        notes.append(f"what is done behind the model{at} is wrong, too: {program.reason}")
    return tuple(notes)


def _notes_on_tolerances(parity: Parity) -> list[str]:
    """Fixed tolerances within which zeros would be, too, instead of what the model computes."""
    if parity.rule.startswith((NOISE_FLOOR.name, USUAL)):
        return []
    judged = {layer.name: layer.own for layer in parity.layers if layer.own is not None and layer.passed}
    wide = [name for name, own in judged.items() if _takes_zeros(own)]
    if not wide:
        return []
    said = f"the tolerances ({judged[wide[0]].rule}) are so wide that"
    if len(wide) == len(judged):
        return [f"{said} nothing could fail: zeros would pass everywhere"]
    return [f"{said} zeros would pass in {len(wide)} of {len(judged)} layers ({_some(wide)})"]


def _takes_zeros(own: Measured) -> bool:
    """Whether a tolerance that somebody gave would let zeros pass where there are other numbers."""
    if own.golden_max == 0 or own.golden_dtype.startswith(("int", "uint", "bool")):
        return False
    return own.rtol >= 1 or own.atol >= (1 - own.rtol) * own.golden_max


def _some(names: Sequence[str]) -> str:
    more = len(names) - 3
    return ", ".join(names[:3]) + (f" and {more} more" if more > 0 else "")
