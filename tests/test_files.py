"""Nothing is ever half-written."""

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from torchport.errors import DiskError
from torchport.files import atomic_write, cache_directory, write_atomically

ROOT = Path(__file__).resolve().parents[1]


def test_text_and_bytes_are_written_and_directories_made(tmp_path: Path) -> None:
    write_atomically(tmp_path / "new" / "a.json", "é")
    write_atomically(tmp_path / "new" / "b.bin", b"\x00")
    assert (tmp_path / "new" / "a.json").read_text(encoding="utf-8") == "é"
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["a.json", "b.bin"]


def test_the_usual_permissions_are_given(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    with atomic_write(tmp_path / "t.safetensors") as temporary:
        save_file({"a": torch.ones(1)}, temporary)
    assert (tmp_path / "t.safetensors").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_block_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("before")
    with pytest.raises(ValueError, match="mine"), atomic_write(path) as temporary:
        temporary.write_text("half")
        raise ValueError("mine")
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_a_coded_error_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with pytest.raises(DiskError) as caught, atomic_write(path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert caught.value.code == "TP0330"
    assert caught.value.message == f"cannot write {path}: No space left on device"
    assert list(tmp_path.iterdir()) == []


WRITE_WITH_LITTLE_ROOM = """
import resource, signal, sys, torch
from safetensors.torch import save_file
from torchport.errors import DiskError
from torchport.files import atomic_write
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    with atomic_write(sys.argv[1]) as temporary:
        save_file({"a": torch.ones(10_000)}, temporary)
except DiskError as error:
    print(error.code)
"""


@pytest.mark.slow
def test_a_full_disk_under_safetensors_is_a_coded_error_and_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITE_WITH_LITTLE_ROOM, str(tmp_path / "t.safetensors")]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    assert answer.stdout == "TP0330\n"
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_made_is_a_coded_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DiskError, match="TP0330"):
        write_atomically(tmp_path / "file" / "a", b"")


@pytest.mark.parametrize("caches", ["/elsewhere", "", None])
def test_the_makefile_and_a_repro_name_the_same_cache(
    caches: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    if caches is not None:
        monkeypatch.setenv("XDG_CACHE_HOME", caches)
    expected = (Path(caches) if caches else tmp_path / ".cache") / "torchport"
    assert cache_directory() == expected
    command = ["make", "--silent", "--directory", str(ROOT), "--eval", "cache: ; @echo $(CACHE)", "cache"]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip() == str(expected)
    sources = [path.read_text() for path in (ROOT / "src" / "torchport" / "targets").rglob("repro*.py")]
    (written,) = re.findall(r"^    cache = (.*)$", "".join(sources), re.MULTILINE)
    assert eval(written, {"os": os, "Path": Path}) == expected
