"""The report on a debugging run: one typed, versioned model, and the JSON that `--json` prints.

Fields may be added, never renamed. Whatever a run could not come to is missing, and `failures` says why.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from torchport.debug.constraints.base import Violation
from torchport.debug.guards.model import GuardReport
from torchport.debug.tree import Artifact
from torchport.debug.verdicts import Verdict
from torchport.errors import ReportError
from torchport.files import write_atomically

CHECK = "check"
"""The step that could not hold a graph against a constraint, which is no proof that the graph keeps to it."""
AGAIN = "Run `torchport debug run` again."
NOT_KEPT = "not kept: "
"""How a note on a file that the disk refused begins."""
Status = Literal["pass", "fail", "error"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, populate_by_name=True, serialize_by_alias=True)


class Summary(_Part):
    total_graphs: int = 0
    graph_breaks: int = 0
    recompilations: int = 0
    constraint_violations: int = 0
    kernel_diff_passed: bool | None = None
    """None if no kernel ran, for one graph or for all, or nothing was compared: that is no proof."""


class GraphInfo(_Part):
    """A graph that was compiled."""

    name: str
    stage: str
    operations: int
    ops: dict[str, int] = Field(default_factory=dict)
    """How often each operation occurs, by its full name."""


class ConstraintSection(_Part):
    checked: tuple[str, ...] = ()
    """The names of the constraints that graphs were held against."""
    violations: tuple[Violation, ...] = ()
    notes: tuple[str, ...] = ()


class Culprit(_Part):
    """The first operation whose own error is out of bounds."""

    layer: str
    operation: str | None = None
    source: str | None = None
    reason: str | None = None


class KernelDiffSection(_Part):
    verdict: Verdict
    why: str | None = None
    """Why it is no verdict on all that was asked for, such as that eager PyTorch computed a graph."""
    reference: str
    backend: str
    compared: int = 0
    """How many values were compared."""
    culprit: Culprit | None = None
    gradients: bool = False
    notes: tuple[str, ...] = ()
    folder: str | None = None
    """The run with every layer, from the folder of this one: `torchport report` reads it."""


class Failure(_Part):
    """Something that ended before its time; what was gathered before is in the report."""

    step: str
    message: str
    where: str | None = None
    code: str | None = None
    """The code of an error of torchport's."""


class DebugReport(_Part):
    """What torch.compile made of a model, what breaks a constraint, and which kernel is wrong."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    status: Status
    model: str
    spec: str | None = None
    """The model, `file.py:callable`, or the script that was run, `file.py`."""
    arguments: tuple[str, ...] = ()
    """What the script was given on its command line."""
    options: dict[str, Any] = Field(default_factory=dict)
    """The constraints, as the options of the command that stood for them."""
    backend: str
    backend_given: str | None = None
    """The backend as it was asked for, a name or `file.py:NAME`; None if nobody did, and a script's own were used."""
    device: str = "cpu"
    timestamp: str
    torch: str
    summary: Summary
    graphs: tuple[GraphInfo, ...] = ()
    guards: GuardReport | None = None
    constraints: ConstraintSection = ConstraintSection()
    kernel_diff: KernelDiffSection | None = None
    artifacts: tuple[Artifact, ...] = ()
    failures: tuple[Failure, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: dict[str, float] = Field(default_factory=dict)
    folder: str | None = None

    def to_json(self) -> str:
        return self.model_dump_json(indent=2)

    def write(self, path: Path) -> None:
        write_atomically(path, self.to_json() + "\n")

    @classmethod
    def read(cls, path: Path) -> Self:
        """ReportError if there is none, or it is none."""
        try:
            return cls.model_validate_json(path.read_bytes())
        except FileNotFoundError as error:
            raise ReportError(
                "TP0340",
                f"{path} is not there: the run did not come to its end",
                where=str(path),
                fix=AGAIN,
            ) from error
        except (OSError, ValidationError) as error:
            what = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
            raise ReportError("TP0341", f"{path} is no report: {what}", where=str(path), fix=AGAIN) from error
