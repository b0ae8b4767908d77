"""What was found by minifying a graph, for a reader and for JSON."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from torchport.explain.repro import counted

_LINES = 8
"""How many lines of what a script printed are shown."""


class MinifiedGraph(BaseModel):
    """The least of a graph that was found to fail, and the script that shows it."""

    model_config = ConfigDict(frozen=True)

    kind: str
    message: str
    operations: tuple[str, ...]
    operations_before: int
    inputs: dict[str, tuple[int, ...]]
    script: str
    queries: int
    """How many times a graph was tried."""
    stage: str | None
    """The stage of torch.compile that is at fault, if that was looked for and found."""
    notes: tuple[str, ...]
    fails_in_fresh_process: bool
    output: str
    """What the script printed in a process of its own."""

    def as_text(self) -> str:
        shapes = ", ".join(f"{name} {list(shape)}" for name, shape in self.inputs.items())
        printed = "\n           ".join(self.output.splitlines()[-_LINES:])
        before = counted(self.operations_before, "operation")
        lines = [
            f"{self.kind} with {counted(len(self.operations), 'operation')} of {before} ({self.queries} tries)",
            "",
            f"operation  {', '.join(self.operations)}",
            f"inputs     {shapes}",
            f"failure    {self.message}",
            *([f"stage      {self.stage}"] if self.stage else []),
            f"script     {self.script}",
            f"it says    {printed}",
            *(f"note       {note}" for note in self.notes),
        ]
        return "\n".join(lines)
