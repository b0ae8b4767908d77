"""A command answers before it is loaded: Ctrl-C ends it with one line at any moment, and a terminal sees something."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-c", "import sys; from torchport.cli import main; sys.exit(main())"]
HEAVY = {"typer", "pydantic", "rich", "torch", "json", "importlib.metadata"}


def test_nothing_heavy_is_imported_before_ctrl_c_has_its_answer() -> None:
    code = "import sys; before = set(sys.modules); import torchport.cli; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "torchport.cli" in done.stdout and not HEAVY & set(done.stdout.split())


@pytest.mark.parametrize("after", [0.0, 0.1, 0.3, 0.9, 1.5, 2.5])
def test_ctrl_c_while_it_loads_is_one_line_and_130(tmp_path: Path, after: float) -> None:
    (tmp_path / "m.py").write_text("import time\n\ndef net():\n    time.sleep(60)\n")
    begun = [*COMMAND[:2], "import sys; from torchport.cli import main; print(flush=True); sys.exit(main())"]
    process = subprocess.Popen(
        [*begun, "port", "m.py:net", "--to", "torch"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(after + 0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "") and "Traceback" not in err, err
    assert [line for line in err.splitlines() if line.startswith("stopped: ")] == [err.splitlines()[-1]]


def test_a_terminal_sees_something_before_anything_is_loaded(tmp_path: Path) -> None:
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(tmp_path)
        os.execv(sys.executable, [*COMMAND, "explain", "TP0201"])
    seen = b""
    while True:
        try:
            more = os.read(terminal, 65536)
        except OSError:
            break
        if not more:
            break
        seen += more
    os.waitpid(child, 0)
    assert seen.startswith(b"torchport: starting\r ")
    assert b"TP0201" in seen.rpartition(b"\r   ")[2], "and it is gone when the answer comes"
