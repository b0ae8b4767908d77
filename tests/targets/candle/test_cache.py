"""The cache: what it says it holds, and that only what is stale goes, and nothing outside."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from torchport.errors import DiskError
from torchport.targets.candle import cache
from torchport.targets.candle.build import find_cargo
from torchport.targets.candle.project import RUNTIME, cargo_toml, runtime_digest

HASHES = ("1" * 16, "2" * 16)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    place = tmp_path / "cache" / "torchport"
    place.mkdir(parents=True)
    return place


@pytest.fixture
def projects(tmp_path: Path) -> Path:
    return tmp_path / "projects"


def write(path: Path, size: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    return path


def manifest(folder: Path, package: str, crate: str, project: Path, digest: str) -> Path:
    path = folder / "build" / package / "Cargo.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    runtime = folder / "runtime" / digest / RUNTIME
    path.write_text(cargo_toml(package, crate, package, str(project / "src"), {RUNTIME: str(runtime)}))
    return path


def built(folder: Path, package: str, project: Path, *, days: float = 0) -> None:
    """The files that a build leaves: a manifest, a program under two names, a library, and cargo's notes."""
    crate, debug = package.rpartition("-")[0], folder / "target" / "debug"
    manifest(folder, package, crate, project, runtime_digest())
    used = write(folder / "build" / package / "last-use", 0)
    for hash_ in (f"{HASHES[0][:4]}{package[-12:]}", f"{HASHES[1][:4]}{package[-12:]}"):
        write(debug / ".fingerprint" / f"{package}-{hash_}" / "invoked.timestamp", 10)
        write(debug / "deps" / f"lib{crate}-{hash_}.rlib", 1000)
        write(debug / "deps" / f"{crate}-{hash_}.d", 100)
    program = write(debug / "deps" / f"{package.replace('-', '_')}-{hash_}", 5000)
    os.link(program, debug / package)
    write(debug / f"{package}.d", 50)
    write(debug / "incremental" / f"{package.replace('-', '_')}-0ab1" / "s-1" / "work.o", 300)
    state = write(debug / "incremental" / f"{crate}-{package[-3:]}" / "s-1" / "metadata.rmeta", 0)
    state.write_bytes(b"\0\1" + str(project / "src" / "lib.rs").encode() + b"\0")
    long_ago = time.time() - days * 86400
    os.utime(used, (long_ago, long_ago))


def runtime(folder: Path, digest: str, hash_: str) -> None:
    source = write(folder / "runtime" / digest / RUNTIME / "src" / "lib.rs", 400)
    debug = folder / "target" / "debug"
    write(debug / ".fingerprint" / f"{RUNTIME}-{hash_}" / "invoked.timestamp", 10)
    write(debug / "deps" / f"libtorchport_runtime-{hash_}.rlib", 7000)
    (debug / "deps" / f"torchport_runtime-{hash_}.d").write_text(f"{debug}/x.d: {source}\n")


def candle(folder: Path) -> None:
    debug = folder / "target" / "debug"
    write(debug / ".cargo-lock", 0)
    write(debug / ".fingerprint" / "candle-core-aaaaaaaaaaaaaaaa" / "invoked.timestamp", 10)
    write(debug / "deps" / "libcandle_core-aaaaaaaaaaaaaaaa.rlib", 20_000)


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def bytes_below(folder: Path) -> int:
    inodes = {path.lstat().st_ino: path.lstat().st_size for path in folder.rglob("*") if not path.is_dir()}
    return sum(inodes.values())


def test_an_empty_cache_holds_nothing(folder: Path) -> None:
    held = cache.contents()
    assert (held.folder, held.crates, held.runtimes, held.bytes) == (folder, (), (), 0)
    assert cache.clear().bytes == cache.clear(everything=True).bytes == 0


def test_contents_name_each_crate_with_its_project_its_size_and_its_last_use(
    folder: Path, projects: Path
) -> None:
    (projects / "here").mkdir(parents=True)
    candle(folder)
    built(folder, "net-aaaaaaaaaaaa", projects / "here", days=3)
    built(folder, "net-bbbbbbbbbbbb", projects / "gone")
    runtime(folder, runtime_digest(), "c" * 16)
    runtime(folder, "0123456789ab", "d" * 16)
    write(folder / "faults" / "zoo" / "x", 77)
    held = cache.contents()
    assert held.bytes == bytes_below(folder)
    here, gone = sorted(held.crates, key=lambda crate: crate.package)
    assert (here.project, here.project_exists) == (projects / "here", True)
    assert (gone.project, gone.project_exists) == (projects / "gone", False)
    assert timedelta(days=2.9) < datetime.now(UTC) - here.last_use < timedelta(days=3.1)
    assert 5000 + 2 * 1000 + 300 < here.bytes < 9000, "the program has two names and counts once"
    assert {copy.digest: copy.is_current for copy in held.runtimes} == {
        runtime_digest(): True,
        "0123456789ab": False,
    }
    assert all(copy.bytes > 7400 for copy in held.runtimes)
    assert (held.candle_bytes, held.other_bytes) == (20_010, 77)


def test_what_is_stale_goes_with_all_its_files_and_the_rest_stays(folder: Path, projects: Path) -> None:
    for name in ("old", "kept"):
        (projects / name).mkdir(parents=True)
    candle(folder)
    built(folder, "net-cccccccccccc", projects / "kept", days=5)
    runtime(folder, runtime_digest(), "c" * 16)
    write(folder / "faults" / "zoo" / "x", 77)
    kept = tree(folder)
    built(folder, "net-aaaaaaaaaaaa", projects / "gone")
    built(folder, "other-bbbbbbbbbbbb", projects / "old", days=8)
    runtime(folder, "0123456789ab", "d" * 16)
    before = bytes_below(folder)
    cleared = cache.clear(days=7)
    assert {crate.package for crate in cleared.crates} == {"net-aaaaaaaaaaaa", "other-bbbbbbbbbbbb"}
    assert [copy.digest for copy in cleared.runtimes] == ["0123456789ab"]
    assert tree(folder) - {"lock"} == kept
    assert cleared.bytes == before - bytes_below(folder) > 0
    assert cache.clear(days=7).crates == ()


def test_everything_goes_but_the_locks(folder: Path, projects: Path) -> None:
    candle(folder)
    built(folder, "net-aaaaaaaaaaaa", projects / "here")
    write(folder / "target" / "CACHEDIR.TAG", 5)
    write(folder / "faults" / "zoo" / "x", 77)
    cleared = cache.clear(everything=True)
    assert tree(folder) == {"lock", "target", "target/debug", "target/debug/.cargo-lock"}
    assert cleared.bytes > 20_000 and cache.contents().bytes == 0


def test_files_of_a_crate_whose_manifest_is_gone_are_stale(folder: Path, projects: Path) -> None:
    projects.mkdir()
    candle(folder)
    built(folder, "net-aaaaaaaaaaaa", projects)
    shutil.rmtree(folder / "build")
    (crate,) = cache.contents().crates
    assert crate.project is None and not crate.project_exists
    cache.clear()
    assert not [path for path in (folder / "target").rglob("*aaaaaaaaaaaa*") if "candle" not in str(path)]


def test_a_manifest_that_cannot_be_read_makes_a_crate_stale(folder: Path) -> None:
    write(folder / "build" / "net-aaaaaaaaaaaa" / "Cargo.toml", 9)
    (crate,) = cache.contents().crates
    assert crate.project is None
    cache.clear()
    assert cache.contents().crates == ()


def test_links_are_never_followed(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    built(outside, "net-aaaaaaaaaaaa", tmp_path / "gone")
    candle(outside)
    before = tree(outside)
    (folder / "target").symlink_to(outside / "target")
    (folder / "build").mkdir()
    (folder / "build" / "net-aaaaaaaaaaaa").symlink_to(outside / "build" / "net-aaaaaaaaaaaa")
    (folder / "runtime").symlink_to(outside / "runtime")
    (folder / "loop").symlink_to(folder)
    held = cache.contents()
    assert held.crates == () and held.bytes < 1000
    cache.clear()
    assert (folder / "target").is_symlink() and tree(outside) == before
    cache.clear(everything=True)
    assert tree(folder) == {"lock"} and tree(outside) == before


def test_links_inside_what_is_stale_are_removed_and_what_they_lead_to_stays(
    folder: Path, tmp_path: Path
) -> None:
    precious = write(tmp_path / "outside" / "precious", 10)
    candle(folder)
    built(folder, "net-aaaaaaaaaaaa", tmp_path / "gone")
    debug = folder / "target" / "debug"
    hash_ = f"1111{'a' * 12}"
    (debug / "deps" / f"net-{hash_}.so").symlink_to(precious)
    (debug / ".fingerprint" / f"net-aaaaaaaaaaaa-{hash_}" / "link").symlink_to(precious.parent)
    (debug / "incremental" / "net_aaaaaaaaaaaa-9").symlink_to(precious.parent)
    cache.clear()
    assert precious.read_bytes() == b"x" * 10
    assert not (debug / "deps" / f"net-{hash_}.so").is_symlink()
    assert not (debug / ".fingerprint" / f"net-aaaaaaaaaaaa-{hash_}").exists()


def waits_for(lock: Callable[[], object], release: Callable[[], object]) -> list[str]:
    """What `clear` reports while `lock` is held; it must end once that is released."""
    lock()
    reported: list[str] = []
    waiting = threading.Event()

    def report(text: str) -> None:
        reported.append(text)
        waiting.set()

    clearing = threading.Thread(target=lambda: cache.clear(everything=True, say=report))
    clearing.start()
    assert waiting.wait(10) and clearing.is_alive()
    assert (cache.build_folder() / "net-aaaaaaaaaaaa").is_dir(), "nothing goes while a build runs"
    release()
    clearing.join(10)
    assert not clearing.is_alive() and not cache.build_folder().exists()
    return reported


def test_clearing_waits_for_cargo(folder: Path, projects: Path) -> None:
    candle(folder)
    built(folder, "net-aaaaaaaaaaaa", projects)
    with (folder / "target" / "debug" / ".cargo-lock").open("a") as file:
        reported = waits_for(
            lambda: fcntl.flock(file, fcntl.LOCK_EX), lambda: fcntl.flock(file, fcntl.LOCK_UN)
        )
    assert reported == ["waiting for another build to end"]


def test_clearing_waits_for_a_build_that_has_not_yet_called_cargo(folder: Path, projects: Path) -> None:
    built(folder, "net-aaaaaaaaaaaa", projects)
    build, other = cache.in_use(lambda _: None), cache.in_use(lambda _: None)
    other.__enter__()
    reported = waits_for(
        build.__enter__, lambda: (build.__exit__(None, None, None), other.__exit__(None, None, None))
    )
    assert reported == ["waiting for another build to end"]


def test_a_cache_that_cannot_be_written_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "file", 1)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(DiskError, match="TP0330"):
        cache.clear()


@pytest.mark.builds
class TestRealCargo:
    """Two projects with the same crate name, and two copies of a runtime crate, built by cargo in one cache."""

    @staticmethod
    def cargo(folder: Path, package: str) -> str:
        environment = {**os.environ, "CARGO_TARGET_DIR": str(folder / "target"), "CARGO_TERM_COLOR": "never"}
        command = [find_cargo(), "build", "--offline"]
        done = subprocess.run(
            command, cwd=folder / "build" / package, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stderr

    @staticmethod
    def make(folder: Path, project: Path, package: str, digest: str) -> None:
        crate = folder / "runtime" / digest / RUNTIME
        (crate / "src").mkdir(parents=True)
        (crate / "Cargo.toml").write_text(f'[package]\nname = "{RUNTIME}"\nversion = "0.1.0"\n')
        (crate / "src" / "lib.rs").write_text("pub fn zero() -> i32 { 0 }\n")
        (project / "src").mkdir(parents=True)
        (project / "src" / "lib.rs").write_text("pub fn status() -> i32 { torchport_runtime::zero() }\n")
        (project / "src" / "main.rs").write_text("fn main() { std::process::exit(net::status()) }\n")
        path = manifest(folder, package, "net", project, digest)
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(line for line in lines if not line.startswith(("candle", "serde"))))
        cache.note_use(path.parent)
        TestRealCargo.cargo(folder, package)

    def test_a_crate_goes_with_all_that_cargo_made_for_it_and_its_neighbour_stays_built(
        self, folder: Path, projects: Path
    ) -> None:
        old, kept = "net-aaaaaaaaaaaa", "net-bbbbbbbbbbbb"
        self.make(folder, projects / "kept", kept, runtime_digest())
        before = {path for path in tree(folder) if "libnet." not in path}
        self.make(folder, projects / "old", old, "0123456789ab")
        held = cache.contents()
        assert held.bytes == bytes_below(folder)
        assert {crate.package: crate.project for crate in held.crates} == {
            old: projects / "old",
            kept: projects / "kept",
        }
        assert held.candle_bytes < 2000, "all but cargo's own notes belongs to somebody"
        shutil.rmtree(projects / "old")
        cleared = cache.clear()
        assert [crate.package for crate in cleared.crates] == [old]
        assert [copy.digest for copy in cleared.runtimes] == ["0123456789ab"]
        assert cleared.bytes == held.bytes - bytes_below(folder)
        assert tree(folder) - {"lock"} == before
        assert "Compiling" not in self.cargo(folder, kept)
        assert subprocess.run([folder / "target" / "debug" / kept]).returncode == 0
