"""A debugging run of a whole script: it runs as it is, and every torch.compile in it is watched.

In: a Python file with its arguments. Out: a report, and a folder with the artifacts, as for a model. Kernels are not
compared: that takes a model and its inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torchport.capture.spec import SCRIPT_FAILED, must_be_script, run_script
from torchport.debug.backends.choosing import Backend, Chosen, chosen
from torchport.debug.backends.in_place import InPlace
from torchport.debug.backends.outside import Outside
from torchport.debug.constraints.base import Constraint
from torchport.debug.findings import Findings, Subject
from torchport.debug.folders import ROOT, in_progress, new_tree
from torchport.debug.internals.every_compile import calls_made_in, graphs_handed_to
from torchport.debug.kernel_diff.deadline import within
from torchport.debug.report import DebugReport
from torchport.debug.running import named
from torchport.debug.session import Session
from torchport.debug.torch_warnings import kept_as_notes
from torchport.errors import CaptureError
from torchport.events import Steps, Watcher, ignore

COMPILED_NOTHING = (
    "nothing was compiled: no function that the script gave to torch.compile ran in this process"
)
NOT_COMPARED = (
    "kernels were not compared: that takes a model and its inputs, which a SPEC (file.py:callable) names"
)
NO_BACKEND = "none"


def debug_script(
    script: str | Path,
    arguments: Sequence[str] = (),
    *,
    backend: Backend | None = None,
    constraints: Sequence[Constraint] = (),
    strict: bool = False,
    timeout_s: float | None = None,
    name: str | None = None,
    root: str | Path = ROOT,
    given: Mapping[str, Any] | None = None,
    watch: Watcher = ignore,
) -> DebugReport:
    """Runs a script as `python SCRIPT` would, and reports what its torch.compiles make, whatever functions they are of.

    Each compiles with the backend that it was given, unless there is a `backend`, which then compiles all graphs in the
    place of theirs. What the script has compiled before it raises, ends Python or takes too long is in the report.
    """
    path = Path(script)
    must_be_script(path)
    wanted = None if backend is None else chosen(backend)
    name = name or path.stem
    steps, tree = Steps(watch), new_tree(Path(root), name if wanted is None else f"{name}-{wanted.name}")
    rules = [*constraints, *(() if wanted is None else wanted.constraints)]
    findings = Findings(Session(rules, tree, say=steps.say), tree, steps, notes=[NOT_COMPARED])
    graphs = InPlace(findings.session, wanted, strict=strict, failed=partial(findings.fail_by, "compile"))
    run = _Run(path, tuple(arguments), name, wanted, named(backend), dict(given or {}), findings, graphs)
    with in_progress(tree.path):
        with findings.kept_if_stopped(run.subject), kept_as_notes(findings.notes):
            run.run(timeout_s)
        return findings.report(run.subject())


@dataclass(frozen=True)
class _Run:
    path: Path
    arguments: tuple[str, ...]
    name: str
    wanted: Chosen | None
    backend_given: str | None
    options: dict[str, Any]
    findings: Findings
    graphs: InPlace

    def run(self, timeout_s: float | None) -> None:
        findings = self.findings
        with (
            findings.guards_watched(self.name, other_backends=True),
            _watched(findings.session, self.graphs),
            findings.steps.step("run", f"running {self.path}"),
            _end_kept(findings),
        ):
            within(timeout_s, f"running {self.path}", partial(run_script, self.path, self.arguments))
        if not self.graphs.names and not findings.failures:
            findings.fail("compile", COMPILED_NOTHING)

    def subject(self) -> Subject:
        """What the run is of. Which backends and devices a script uses is known once it has run."""
        backends = ", ".join(self.graphs.names) or NO_BACKEND
        return Subject(
            self.name,
            backends if self.wanted is None else self.wanted.name,
            _devices(self.findings.session),
            str(self.path),
            self.arguments,
            self.backend_given,
            self.options,
        )


@contextmanager
def _watched(session: Session, graphs: InPlace) -> Iterator[None]:
    """Within, graphs go through `graphs`. If there are constraints, what compiled functions run outside counts, too."""
    with ExitStack() as stack:
        stack.enter_context(graphs_handed_to(graphs))
        if session.constraints:
            stack.enter_context(calls_made_in(Outside(session).watched))
        yield


@contextmanager
def _end_kept(findings: Findings) -> Iterator[None]:
    """Within, a script may end as it likes: what it raises, and an exit code that is not 0, are findings."""
    with findings.failures_kept("compile"):  # An error of torchport's comes from a backend.
        try:
            yield
        except CaptureError as end:
            if end.code != SCRIPT_FAILED:
                raise
            cause = end.__cause__
            if cause is None or isinstance(cause, SystemExit):
                findings.fail("script", end.message)
            else:
                findings.fail_by("compile" if hasattr(cause, "inner_exception") else "script", cause)


def _devices(session: Session) -> str:
    """The types of devices of all tensors that were compiled for."""
    tensors = (tensor for graph in session.graphs for node in graph.nodes for tensor in node.tensors)
    return ", ".join(sorted({tensor.device.partition(":")[0] for tensor in tensors})) or "cpu"
