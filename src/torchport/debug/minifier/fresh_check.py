"""Tries a case as a script in a fresh process: slow, but the only way to survive a crash once CUDA is in use."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torchport.debug.minifier import failure
from torchport.debug.minifier.case import GraphCase
from torchport.debug.minifier.checks import Check
from torchport.debug.minifier.failure import Failure, Kind
from torchport.debug.minifier.fresh import run_fresh
from torchport.debug.minifier.script import Script


@dataclass(frozen=True)
class FreshCheck:
    check: Check
    kind: Kind | None
    """A crash or a hang."""
    limit: float
    setup: Sequence[str] = ()

    def failure_of(self, case: GraphCase) -> Failure | None:
        assert self.kind is not None
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "case.py"
            Script(case, Failure(self.kind, "", ""), self.check, setup=self.setup).write(script)
            run = run_fresh(script, Failure(self.kind, "", ""), self.limit)
        if run.status is None:
            return failure.of_hang(self.limit)
        if run.status == 1:  # An exception is no crash.
            return Failure("exception", "", run.said[-500:])
        return failure.of_ending(run.status, run.stderr) if run.status else None
