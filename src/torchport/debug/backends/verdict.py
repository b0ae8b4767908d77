"""What follows from violations: an error with the script that shows them, or a warning for each."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Sequence
from pathlib import Path

from torchport.debug.constraints.base import Violation
from torchport.debug.graph_files import write_repro
from torchport.debug.repro import Repro
from torchport.debug.session import Session
from torchport.debug.tree import ArtifactTree
from torchport.errors import CompileError

_LOG = logging.getLogger("torchport.debug")
_MOST = 5


def judge(
    violations: Sequence[Violation], strict: bool, session: Session, name: str, script: Repro | None
) -> None:
    """Raises CompileError if strict; else each violation is logged."""
    if not violations:
        return
    if not strict:
        for one in violations:
            _LOG.warning("%s", one)
        return
    graph = f"{violations[0].graph} ({violations[0].stage})"
    listed = "; ".join(str(one) for one in violations[:_MOST])
    more = f"; and {len(violations) - _MOST} more" if len(violations) > _MOST else ""
    path = _path_of(script, session.tree, name)
    shown = f". The script {path} runs the graph by itself" if path is not None else ""
    first = violations[0]
    raise CompileError(
        "TP1010", f"{graph} breaks constraints: {listed}{more}{shown}", where=first.source, fix=first.fix
    )


def _path_of(script: Repro | None, tree: ArtifactTree | None, name: str) -> Path | None:
    """Where the script is: in the tree, or else in a new folder for temporary files."""
    if script is None:
        return None
    if tree is not None:
        path = tree.path / "repros" / f"{name}.py"
        return path if path.exists() else None
    return write_repro(ArtifactTree(Path(tempfile.mkdtemp(prefix="torchport-")), name), name, script)
