"""Names the stage of torch.compile that is at fault: the first rung of a ladder of backends on which a case fails."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torchport.debug.internals import bisect
from torchport.debug.minifier.case import GraphCase
from torchport.debug.minifier.checks import BackendCheck
from torchport.debug.minifier.failure import Failure
from torchport.debug.minifier.laboratory import Laboratory

LADDER = {
    "eager": "Dynamo",
    "aot_eager": "AOTAutograd",
    "aot_eager_decomp_partition": "decompositions",
    "inductor": "Inductor",
}
"""The backends of torch.compile, each with one more stage than the one before, and the stage that it adds."""


@dataclass(frozen=True)
class Stage:
    name: str
    backend: str
    """The first backend with which the case fails."""
    part: str | None = None
    """The part of Inductor without which it does not, such as `lowerings`."""
    detail: str | None = None

    def __str__(self) -> str:
        part = f", {self.part}" if self.part and self.part not in self.name else ""
        return f"{self.name}{part}" + (f": {self.detail}" if self.detail else "")


def find_stage(case: GraphCase, failure: Failure, laboratory: Laboratory) -> Stage | None:
    """The stage at fault, or None if the backend is not one of torch's own."""
    check = laboratory.check
    if not isinstance(check, BackendCheck) or check.backend not in ("inductor", "torchport_inductor"):
        return None
    for backend, name in LADDER.items():
        rung = BackendCheck(backend, failure.kind)
        ended = laboratory.run(lambda rung=rung: rung.failure_of(case))  # type: ignore[misc]
        died = ended.status is not None and failure.kind == "crash"
        late = ended.is_late and failure.kind == "hang"
        if died or late or failure.is_kept_by(ended.value):
            found = Stage(name, backend)
            return found if died or late else _part_of(found, case, failure, laboratory)
    return None


def _part_of(stage: Stage, case: GraphCase, failure: Failure, laboratory: Laboratory) -> Stage:
    """The stage with the pass or lowering at fault, if torch's own bisection finds it."""
    if stage.backend not in ("inductor", "aot_eager_decomp_partition"):
        return stage
    check = BackendCheck("inductor", failure.kind)

    def works() -> bool:
        return not failure.is_kept_by(check.failure_of(case))

    patient = replace(laboratory, limit=laboratory.limit * 10)
    blamed = patient.run(lambda: bisect.bisect(works)).value
    if blamed is None or blamed.backend != stage.backend:
        return stage
    return replace(stage, part=blamed.subsystem, detail=blamed.detail)
