"""A folder that is being changed: it is as before unless the change ends well, whatever ends it."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from torchport.errors import ReportError
from torchport.runs import changing as module
from torchport.runs.changing import BEFORE, changing, put_back_if_interrupted

NAMES = ("report.json", "rust", "run", "missing")
Contents = dict[str, str | None]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a run, with files of a user's own and a cache in it."""
    made = tmp_path / "run"
    for name in ("report.json", "rust/src/model.rs", "rust/mine.rs", "run/chained", "notes.txt"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(f"old {name}")
    (made / "rust/target/debug").mkdir(parents=True)
    (made / "rust/target/CACHEDIR.TAG").write_text("")
    (made / "rust/empty").mkdir()
    return made


def contents(folder: Path) -> Contents:
    return {
        path.relative_to(folder).as_posix(): None if path.is_dir() else path.read_text()
        for path in sorted(folder.rglob("*"))
    }


def change(folder: Path) -> None:
    """Writes over files, makes and removes some, and makes a folder where a file was."""
    beside = folder / ".report.json.x.tmp"
    beside.write_text("new")
    os.replace(beside, folder / "report.json")
    (folder / "rust/src/model.rs").unlink()
    (folder / "rust/src/model.rs").mkdir()
    (folder / "rust/src/model.rs/inner").write_text("new")
    (folder / "rust/new.rs").write_text("new")
    (folder / "rust/empty").rmdir()
    (folder / "run/chained").unlink()
    (folder / "run").rmdir()
    (folder / "run").write_text("a file now")
    (folder / "missing").mkdir()
    (folder / "rust/target/debug/built").write_text("built")
    (folder / ".run.json.y.tmp").write_text("half")


def test_a_change_that_ends_well_stays(folder: Path) -> None:
    with changing(folder, NAMES):
        change(folder)
    after = contents(folder)
    assert after["report.json"] == "new" and after["rust/new.rs"] == "new" and after["missing"] is None
    assert not any(name.startswith(BEFORE) for name in after)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_change_that_fails_leaves_nothing(folder: Path, error: type[BaseException]) -> None:
    before = {**contents(folder), "rust/target/debug/built": "built"}
    with pytest.raises(error), changing(folder, NAMES):
        change(folder)
        raise error
    assert contents(folder) == before


def test_the_files_are_the_same_and_not_copies(folder: Path) -> None:
    before = (folder / "report.json").stat()
    with pytest.raises(ValueError), changing(folder, NAMES):
        change(folder)
        raise ValueError
    after = (folder / "report.json").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_a_disk_without_links_has_copies(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    before = {**contents(folder), "rust/target/debug/built": "built"}
    with pytest.raises(ValueError), changing(folder, NAMES):
        change(folder)
        raise ValueError
    assert contents(folder) == before


KILLED = f"""
import os, signal, sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from pathlib import Path
from tests.runs.test_changing import NAMES, change
from torchport.runs.changing import changing
folder = Path(sys.argv[1])
with changing(folder, NAMES):
    change(folder)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def killed(folder: Path) -> tuple[Path, Contents]:
    """A folder that a process was changing when it was killed, and what was in it before."""
    before = {**contents(folder), "rust/target/debug/built": "built"}
    done = subprocess.run([sys.executable, "-c", KILLED, str(folder)], check=False)
    assert done.returncode == -signal.SIGKILL and (folder / BEFORE).is_dir()
    return folder, before


def test_the_next_who_opens_it_puts_back_what_a_killed_process_changed(
    killed: tuple[Path, Contents],
) -> None:
    folder, before = killed
    put_back_if_interrupted(folder)
    assert contents(folder) == before
    put_back_if_interrupted(folder)
    assert contents(folder) == before


@pytest.mark.parametrize("steps", range(1, 9))
def test_putting_back_may_be_killed_too(
    killed: tuple[Path, Contents], steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, before = killed
    left = steps

    class Killed(BaseException):
        pass

    def counted(real):  # type: ignore[no-untyped-def]
        def step(*args: object, **options: object) -> object:
            nonlocal left
            left -= 1
            if left == 0:
                raise Killed
            return real(*args, **options)

        return step

    with monkeypatch.context() as patch:
        for name in ("replace", "rename", "link"):
            patch.setattr(os, name, counted(getattr(os, name)))
        with suppress(Killed):
            put_back_if_interrupted(folder)
    put_back_if_interrupted(folder)
    assert contents(folder) == before


def test_the_next_change_puts_back_first(killed: tuple[Path, Contents]) -> None:
    folder, _ = killed
    with changing(folder, NAMES):
        assert (folder / "report.json").read_text() == "old report.json"
        (folder / "report.json").write_text("newer")
    assert (folder / "report.json").read_text() == "newer" and (folder / "run").is_dir()


def test_two_processes_do_not_change_one_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with changing(folder, NAMES):
        monkeypatch.setattr(module, "_changing", [])  # As another process sees it.
        with pytest.raises(ReportError, match="TP0346.*another torchport command is at work"):
            put_back_if_interrupted(folder)
        with pytest.raises(ReportError, match="TP0346"), changing(folder, NAMES):
            pass
        monkeypatch.undo()


def test_a_change_within_a_change_is_undone_with_it(folder: Path) -> None:
    before = contents(folder)
    with pytest.raises(ValueError), changing(folder, (*NAMES, "checks")):
        with changing(folder / "checks" / "other", ("report.json",)):
            (folder / "checks" / "other" / "report.json").write_text("new")
        with changing(folder, ("report.json",)):
            (folder / "rust/new.rs").write_text("new")
        raise ValueError
    assert contents(folder) == before


def test_a_folder_that_was_not_there_goes_again(tmp_path: Path) -> None:
    with pytest.raises(ValueError), changing(tmp_path / "a" / "b", NAMES):
        (tmp_path / "a" / "b" / "report.json").write_text("new")
        raise ValueError
    assert not (tmp_path / "a").exists()
