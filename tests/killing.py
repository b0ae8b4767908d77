"""Kills commands at random points, and looks at what the next finds.

`python -m tests.killing FOLDER TARGET SEED COUNT KIND…`

Commands run in forks of this process, which has imported everything, so that most points are in the work itself.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from tests.targets.conformance import SABOTAGE
from torchport.cli import main
from torchport.runs.changing import BEFORE
from torchport.runs.run import Run
from torchport.targets.registry import find_target

MODELS = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        return self.two(nn.functional.gelu(self.one(x)))

def net(seed):
    torch.manual_seed(seed)
    return Net().eval(), torch.randn(3, 8)

def first():
    return net(0)

def second():
    return net(1)
"""
Contents = dict[str, bytes]


def contents(folder: Path) -> Contents:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@dataclass(frozen=True)
class Kind:
    """A command, the folder that it begins with, and whether a folder is as it leaves it when it is complete."""

    command: tuple[str, ...]
    start: Path
    code: int
    complete: Callable[[Path], bool]
    share: int
    """How many of ten points are in it."""


def fork(command: tuple[str, ...]) -> int:
    """The id of a process that runs a command, in a group of its own."""
    if (child := os.fork()) != 0:
        return child
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    code = 3
    with suppress(BaseException):
        code = main(list(command))
    os._exit(code)


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kill(child: int, delay: float) -> None:
    time.sleep(delay)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)


def prepared(folder: Path, target: str) -> dict[str, Kind]:
    """A run that passes, one whose graph was edited since, and one that was seen to fail; all with a page."""
    models = folder / "m.py"
    models.write_text(MODELS)
    passed, edited, failed = (folder / name for name in ("passed", "edited", "failed"))
    port = ("port", f"{models}:first", "--to", target, "--name", "first", "--out", str(passed))
    assert ended(fork(port)) == 0
    (passed / "report.html").write_text("<html></html>")
    shutil.copytree(passed, edited)
    SABOTAGE[target].gelu_as_tanh(edited / find_target(target).project)
    shutil.copytree(edited, failed)
    assert ended(fork(("check", str(failed), "--no-explain"))) == 1
    run = str(folder / "run")

    def is_second(place: Path) -> bool:
        captures = {file.name.partition("_")[0] for file in (place / "capture").iterdir()}
        return Run.open(place).report.model == "second" and captures == {"second"} and not _has_page(place)

    def has_failed(place: Path) -> bool:
        return Run.open(place).report.status == "fail" and not _has_page(place)

    return {
        "port": Kind(
            ("port", f"{models}:second", "--to", target, "--name", "second", "--out", run),
            passed,
            0,
            is_second,
            4,
        ),
        "check": Kind(("check", run, "--no-explain"), edited, 1, has_failed, 3),
        "report": Kind(("report", run, "--format", "html"), failed, 1, _has_page, 2),
        "minify": Kind(
            ("minify", run),
            failed,
            0,
            lambda place: has_failed(place) and any((place / "minified").glob("*.py")),
            1,
        ),
    }


def _has_page(place: Path) -> bool:
    page = place / "report.html"
    return page.is_file() and page.read_text().rstrip().endswith("</html>")


def campaign(folder: Path, target: str, seed: int, points: int, wanted: list[str]) -> list[str]:
    """What was wrong, with the point at which the command was killed; nothing if all is well."""
    torch.set_num_threads(1)
    chance = random.Random(seed)
    kinds = {name: kind for name, kind in prepared(folder, target).items() if name in wanted}
    place = folder / "run"
    seconds = {}
    for name, kind in kinds.items():
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(kind.start, place)
        began = time.monotonic()
        if (code := ended(fork(kind.command))) != kind.code or not kind.complete(place):
            return [f"{name} ends with {code} if it is not killed"]
        seconds[name] = time.monotonic() - began
    wrong = []
    more = [name for name, kind in kinds.items() for _ in range(kind.share)]
    chance.shuffle(more)
    order = [*kinds, *more]
    for point in range(points):
        name = order[point % len(order)]
        delay = chance.uniform(0, seconds[name])
        wrong += [f"{name} after {delay:.3f} s: {fault}" for fault in _killed(kinds[name], place, delay)]
    return wrong


def _killed(kind: Kind, place: Path, delay: float) -> list[str]:
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(kind.start, place)
    before = contents(place)
    kill(fork(kind.command), delay)
    wrong = []
    if (code := ended(fork(("report", str(place), "--json")))) not in (0, 1):
        wrong.append(f"report ends with {code} afterwards")
    after = {path: data for path, data in contents(place).items() if not path.endswith(".tmp")}
    if after != before and not kind.complete(place):
        differ = sorted(path for path in after.keys() | before.keys() if after.get(path) != before.get(path))
        wrong.append(f"the folder is neither as before nor complete: {differ}")
    if (code := ended(fork(kind.command))) != kind.code or not kind.complete(place):
        wrong.append(f"the same command ends with {code} afterwards")
    left = [path.name for path in place.rglob("*") if path.name.startswith(BEFORE)]
    return [*wrong, *(f"{name} is left" for name in left)]


if __name__ == "__main__":
    given, target, seed, points, *names = sys.argv[1:]
    found = campaign(Path(given), target, int(seed), int(points), names)
    print(f"seed {seed}, {points} points, {len(found)} wrong", *found, sep="\n")
    sys.exit(bool(found))
