"""What a port would be written over: the work of a user is refused, and the artifact of another target goes.

In: the folder that a port is to be written to. Out: a DiskError that names the files, or nothing.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from torchport.errors import DiskError, TorchportError
from torchport.runs import own_work
from torchport.runs.folder import RunFolder, is_run, open_folder
from torchport.targets.base import Target, beside_of
from torchport.targets.registry import find_target

_NAMED = 4


def must_not_lose_work(folder: Path, target: Target, fix: str | None = None) -> None:
    """DiskError if the port in the folder, which a new one would replace, has something of a user's own in it."""
    files = _run_in(folder)
    project = None if files is None else files.about.project
    if files is not None and project is not None and (edits := _edits(files)):
        raise _refusal(files.project, edits, "not what was generated", fix)
    if files is not None and project not in (None, target.project) and (found := own_work.added(files)):
        raise _refusal(files.project, found, "no part of the port that would go", fix)
    if project != target.project and (found := own_work.files_in(folder / target.project)):
        raise _refusal(
            folder / target.project, found, "there, and not of the port that is in the folder", fix
        )


def remove_other(folder: Path, target: Target) -> None:
    """Removes what another target has generated in the folder, which would be taken for a part of the new port."""
    files = _run_in(folder)
    if files is not None and files.about.project not in (None, target.project):
        own_work.remove_generated(files)
        for name in names_of_other(folder)[1:]:
            shutil.rmtree(folder / name, ignore_errors=True)


def names_of_other(folder: Path) -> tuple[str, ...]:
    """The names of the artifact that is in the folder, and of what its target has written beside it."""
    files = _run_in(folder)
    if files is None or files.about.project is None:
        return ()
    try:
        return (files.about.project, *beside_of(find_target(files.about.target)))
    except TorchportError:
        return (files.about.project,)


def _run_in(folder: Path) -> RunFolder | None:
    if not is_run(folder):
        return None
    try:
        return open_folder(folder)
    except TorchportError:
        return None  # Whatever it is, it is no port with a known source.


def _edits(files: RunFolder) -> list[str]:
    """The files that were edited. Earlier versions did not note what they wrote, so there the target must know."""
    found = own_work.edited(files)
    if found is not None or not files.project.is_dir():
        return found or []
    try:
        target = find_target(files.about.target)
        is_edited = bool(target.open(files.project, files.name).edits())
    except (OSError, ValueError, TorchportError):
        return []
    return [target.editable or "the source"] if is_edited else []


def _refusal(place: Path, names: list[str], what: str, fix: str | None) -> DiskError:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    verb = "is" if len(names) == 1 else "are"
    message = f"the port was edited by hand: {', '.join(names[:_NAMED])}{more} {verb} {what}"
    return DiskError("TP0331", message, where=str(place / names[0]), fix=fix)
