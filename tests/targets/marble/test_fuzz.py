"""Damaged snapshots give an error with a code or a right graph, in little memory, and run nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.fuzzing.formats import FORMATS

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.slow


def test_five_hundred_damaged_files_of_each_format_keep_every_promise() -> None:
    command = [sys.executable, "-W", "error", "-m", "benchmarks.fuzz_snapshots", "--cases", "500"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.findall(r"^(\S+) .* ([\d,]+) graphs", done.stdout, re.MULTILINE)
    graphs = {name: int(count.replace(",", "")) for name, count in found}
    assert graphs.keys() == FORMATS.keys()
    assert graphs.pop("native") > 0, "every byte is under the checksum, so hardly a damaged file can be read"
    assert all(count > 5 for count in graphs.values())
    assert set(re.findall(r"TP\d{4}", done.stdout)) >= {"TP0361", "TP0362", "TP0364", "TP0365", "TP0366"}


UNSAFE_READERS = """
import os, pickle, sys
from benchmarks import fuzz_snapshots
from benchmarks.fuzzing.formats import Format

def runs_code(content):
    return pickle.loads(b"cbuiltins\\neval\\nX\\x01\\x00\\x00\\x001\\x85R.")

def imports(content):
    import this_module_is_nowhere

def writes(content):
    return open(os.devnull, "w").close()

def runs_a_command(content):
    return os.system("true")

def raises(content):
    return {}["no code"]

def takes_memory(content):
    return bytes(3 * 10**9)

def another_graph(content):
    return object()

def format_of(load):
    reads_wholes = lambda content: load(content) if content != b"whole" else None
    return lambda: Format(load.__name__, (b"whole",), reads_wholes, lambda graph: b"", lambda a, b: a is b, (b"x",))

readers = (runs_code, imports, writes, runs_a_command, raises, takes_memory, another_graph)
fuzz_snapshots.FORMATS = {reader.__name__: format_of(reader) for reader in readers}
sys.argv = ["fuzz", "--cases", "12", "--keep", "kept", "--formats", *fuzz_snapshots.FORMATS]
sys.exit(fuzz_snapshots.main())
"""


def test_the_fuzzing_finds_readers_that_break_a_promise(tmp_path: Path) -> None:
    """Readers that do one forbidden thing each, whatever the file is: no damaged file is given to a real unpickler."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
    command = [sys.executable, "-c", UNSAFE_READERS]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert done.returncode == 1, done.stdout + done.stderr
    reasons = dict(re.findall(r"^(\w+) +12 cases.*\n.*\n  case \d+: (.*)$", done.stdout, re.MULTILINE))
    assert "pickle.find_class" in reasons["runs_code"]
    assert "ModuleNotFoundError" in reasons["imports"]
    assert "open" in reasons["writes"]
    assert "os.system" in reasons["runs_a_command"]
    assert "KeyError" in reasons["raises"]
    assert "MemoryError" in reasons["takes_memory"]
    assert "another when it is written and read again" in reasons["another_graph"]
    assert list((tmp_path / "kept").iterdir())
