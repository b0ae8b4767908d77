"""A case as a script of its own: the graph as a module, its inputs, how it fails, and a check of that."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from torchport.debug.graph_text import GraphText, Values, inputs_source
from torchport.debug.minifier import bodies
from torchport.debug.minifier.backend_text import ObjectText, text_of
from torchport.debug.minifier.case import GraphCase
from torchport.debug.minifier.checks import BackendCheck, Check, ConstraintCheck, UsersCheck, with_values
from torchport.debug.minifier.comparing import names_a_dtype
from torchport.debug.minifier.conditions import condition
from torchport.debug.minifier.failure import Failure
from torchport.debug.nodes import full_name, read_nodes
from torchport.explain.literals import INLINE
from torchport.files import write_atomically
from torchport.trace.writing import write_tensors

NEEDED = "# What the graph and its backend need."
"""The line of a script before the imports that a user, or a backend, has brought."""
TENSORS = ".safetensors"
"""How the name of the file with the tensors of a script ends."""


@dataclass(frozen=True)
class Script:
    """What is said of a case in its script, beside the case itself."""

    case: GraphCase
    failure: Failure
    check: Check
    notes: Sequence[str] = ()
    """Lines for the comment at the top: where it comes from, the stage at fault."""
    setup: Sequence[str] = ()
    """Lines of Python that come first, such as an import that registers operations."""

    def write(self, path: Path) -> None:
        """Writes the script, and a file of tensors beside it if they are too many to stand in it."""
        values = Values(INLINE)
        graph = GraphText(values, others=True)
        graph.add(self.case.module, "Repro")
        body, needed = _body(self)
        inputs = inputs_source(self.case.names, self.case.inputs, values)
        tensors = values.saved
        file = path.with_suffix(TENSORS)
        if tensors:
            write_tensors(file, tensors, {"format": "pt"})
        else:
            file.unlink(missing_ok=True)
        lines = [
            f'"""{self._docstring()}"""',
            "",
            *_imports(bool(tensors), needed, graph, self.setup),
            f"KIND = {self.failure.kind!r}",
            *([f"BACKEND = {needed.expression}"] if needed and isinstance(self.check, BackendCheck) else []),
            *([f'TENSORS = load_file(Path(__file__).with_suffix("{file.suffix}"))'] if tensors else []),
            inputs,
            graph.source,
            body,
        ]
        write_atomically(path, _tidy("\n".join(lines)))

    def _docstring(self) -> str:
        operations = ", ".join(full_name(node, self.case.module) for node in self.case.operations)
        versions = f"torch {torch.__version__}, Python {platform.python_version()}, {platform.platform()}"
        ending = (
            "dies"
            if self.failure.kind == "crash"
            else "hangs"
            if self.failure.kind == "hang"
            else "ends with status 1"
        )
        lines = [
            f"{operations}: {self.failure.kind}.",
            "",
            self.failure.message.replace("\\", "/").replace('"""', "'''"),
            *self.notes,
            versions,
            "",
            f"Run it with Python: it {ending} as long as the failure is there, and says so if it is gone.",
            "",
        ]
        return "\n".join(lines)


def _imports(has_file: bool, needed: ObjectText | None, graph: GraphText, setup: Sequence[str]) -> list[str]:
    own = dict.fromkeys([*(needed.imports if needed else ()), *sorted(graph.imports), *setup])
    return [
        "import os",
        "import sys",
        *(["from pathlib import Path"] if has_file else []),
        "",
        'os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"  # A cache may hide the failure.',
        "import torch",
        *(["from safetensors.torch import load_file"] if has_file else []),
        "",
        *([NEEDED, *own, ""] if own else []),
    ]


def _body(script: Script) -> tuple[str, ObjectText | None]:
    check, case, failure = script.check, script.case, script.failure
    if isinstance(check, ConstraintCheck):
        return _constraint_body(check, case, failure), None
    if isinstance(check, UsersCheck):
        asked = text_of(check.fails)
        return bodies.ASKS.format(fails=asked.expression), asked
    assert isinstance(check, BackendCheck)
    backend = text_of(check.backend)
    is_through_dynamo = check.through_dynamo or isinstance(check.backend, str)
    call = bodies.COMPILE if is_through_dynamo else bodies.CALL_BACKEND
    return _running_body(case, failure, call), backend


def _running_body(case: GraphCase, failure: Failure, compiled: str) -> str:
    has_gradients = any(isinstance(value, Tensor) and value.requires_grad for value in case.inputs)
    copies = "[value.clone() if isinstance(value, torch.Tensor) else value for value in given]"
    given = copies if case.writes and has_gradients else "given"
    if failure.kind in ("exception", "crash", "hang"):
        backward = bodies.BACKWARD if has_gradients else ""
        return bodies.RUNS.format(compiled=compiled, given=given, backward=backward)
    results = bodies.GRADIENTS if failure.kind == "wrong gradient" else bodies.OUTPUTS
    is_wide = _is_compared_wide(case, failure)
    return bodies.COMPARES.format(
        compiled=compiled,
        results=results.format(given=given, copies="" if given == "given" else f"    given = {given}\n"),
        wide=bodies.WIDE if is_wide else "",
        reference="Repro().double(), [wide(value) for value in inputs()]" if is_wide else "Repro(), inputs()",
        value="found[name].to(value.dtype)" if is_wide else "found[name]",
        tolerance=_tolerance(failure),
        kind=failure.kind,
    )


def _is_compared_wide(case: GraphCase, failure: Failure) -> bool:
    """Whether the script computes the float64 truth; what is wrong in another way than by its size needs none."""
    by_size = failure.mismatch is not None and failure.mismatch.measure in ("absolute", "relative")
    is_real = all(not value.is_complex() for value in case.inputs if isinstance(value, Tensor))
    return by_size and is_real and not names_a_dtype(case)


def _tolerance(failure: Failure) -> str:
    wrong = failure.mismatch
    if wrong is None or wrong.measure not in ("absolute", "relative"):
        return "rtol=0, atol=0" if wrong is not None and wrong.measure == "exact" else "rtol=1e-3, atol=1e-3"
    names = ("rtol", "atol") if wrong.measure == "relative" else ("atol", "rtol")
    return f"{names[0]}={wrong.limit:.2g}, {names[1]}=0"


def _constraint_body(check: ConstraintCheck, case: GraphCase, failure: Failure) -> str:
    violation = failure.violation
    assert violation is not None
    nodes = {node.name: node for node in read_nodes(with_values(case))}
    constraint = next((one for one in check.constraints if one.name == violation.constraint), None)
    return bodies.CONSTRAINT.format(
        rule=f"{violation.constraint}: {violation.message}".replace('"', "'"),
        condition=condition(constraint, violation, nodes.get(violation.node)),
    )


def _tidy(text: str) -> str:
    """The text without more than two empty lines in a row."""
    while "\n\n\n\n" in text:
        text = text.replace("\n\n\n\n", "\n\n\n")
    return text.rstrip("\n") + "\n"
