"""Each command hands its options on and turns the answer into output and an exit code."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from torchport.runs.report import Report
from torchport.targets.base import Todo
from torchport.targets.registry import DEFAULT

from .conftest import Answer, Behind

Torchport = Callable[..., Answer]


def report(status: str) -> Report:
    todo = Todo(op="aten.foo.default", layer="head", reason="nothing maps it")
    todos = (todo,) if status == "unsupported" else ()
    return Report(status=status, target="candle", model="Net", todos=todos)  # type: ignore[arg-type]


@pytest.mark.parametrize(("status", "code"), [("pass", 0), ("fail", 1), ("unsupported", 2), ("error", 2)])
@pytest.mark.parametrize("command", [("port", "m.py:net", "--to", "candle"), ("check", "d", "m:n")])
def test_exit_codes_follow_the_status(
    torchport: Torchport, behind: Behind, command: tuple[str, ...], status: str, code: int
) -> None:
    behind.result = report(status)
    assert torchport(*command).code == code
    answer = torchport(*command, "--json")
    assert answer.code == code
    assert json.loads(answer.stdout)["status"] == status


def test_port_hands_every_option_on(torchport: Torchport, behind: Behind) -> None:
    behind.result = report("pass")
    torchport(
        *("port", "m.py:net", "--to", "candle", "--out", "o", "--name", "n"),
        *("--dynamic", "x:0,x:1", "--hints", "h.json", "--checks", "ops", "--option", "size=3"),
        *("--rtol", "0.1", "--atol", "0.2", "--no-explain"),
    )
    assert (behind.called, behind.given) == ("port_spec", ("m.py:net",))
    assert behind.options == {
        "target": "candle",
        "out": Path("o"),
        "name": "n",
        "dynamic": "x:0,x:1",
        "hints": Path("h.json"),
        "options": {"checks": "ops", "size": 3},
        "rtol": 0.1,
        "atol": 0.2,
        "explain": False,
        "force": False,
    }


def test_port_has_defaults_for_all_but_the_model(torchport: Torchport, behind: Behind) -> None:
    behind.result = report("pass")
    torchport("port", "m.py:net")
    assert behind.options.pop("options") == {}
    assert behind.options.pop("target") == DEFAULT
    assert behind.options.pop("force") is False
    assert behind.options.pop("explain") is True
    assert set(behind.options.values()) == {None}


def test_text_goes_to_stdout_and_progress_to_stderr(torchport: Torchport, behind: Behind) -> None:
    behind.result = report("fail")
    answer = torchport("port", "m.py:net", "--to", "candle")
    assert answer.stdout.startswith("FAIL  Net to candle")
    assert answer.stderr == "working\n"


def test_check_hands_directory_and_spec_on(torchport: Torchport, behind: Behind) -> None:
    behind.result = report("pass")
    torchport("check", "out/net", "m.py:longer", "--rtol", "0.1")
    assert (behind.called, behind.given) == ("check_port", (Path("out/net"), "m.py:longer"))
    assert behind.options == {"rtol": 0.1, "atol": None, "explain": True}
    torchport("check", "out/net")
    assert behind.given == (Path("out/net"), None)


def test_record_of_a_spec(torchport: Torchport, behind: Behind) -> None:
    behind.result = {"files": {"trace": Path("o/n_trace.safetensors")}, "calls": 12}
    answer = torchport("record", "m.py:net", "--name", "n", "--out", "o", "--ops")
    assert answer.code == 0
    assert behind.called == "record_spec"
    assert behind.options == {
        "name": "n",
        "out": Path("o"),
        "dynamic": None,
        "hints": None,
        "ops": True,
        "allow_random": False,
    }
    assert answer.stdout == "files:\n  trace: o/n_trace.safetensors\ncalls: 12\n"


def test_record_of_a_script_as_json(torchport: Torchport, behind: Behind) -> None:
    behind.result = {"files": {"trace": Path("o/n_trace.safetensors")}, "calls": 12}
    answer = torchport("record", "--script", "r.py", "--name", "n", "--out", "o", "--json")
    assert (behind.called, behind.given) == ("record_script", (Path("r.py"),))
    assert json.loads(answer.stdout) == {
        "schema": 1,
        "files": {"trace": "o/n_trace.safetensors"},
        "calls": 12,
    }


@pytest.mark.parametrize("options", [(), ("m.py:net", "--script", "r.py"), ("--script", "r.py", "--ops")])
def test_record_wants_one_thing_to_record(
    torchport: Torchport, behind: Behind, options: tuple[str, ...]
) -> None:
    answer = torchport("record", *options, "--name", "n", "--out", "o")
    assert answer.code == 2 and "TP0801" in answer.stderr
    assert behind.called is None


@pytest.mark.parametrize(("todos", "code"), [([], 0), ([{"op": "aten.foo", "layer": "head"}], 1)])
def test_codegen_exits_with_1_while_todos_remain(
    torchport: Torchport, behind: Behind, todos: list[dict[str, str]], code: int
) -> None:
    behind.result = {"converted": 3, "unsupported": len(todos), "todos": todos, "files": ["f.rs"]}
    command = ("codegen", "--manifest", "n_manifest.json", "--out", "f.rs", "--model", "Net")
    answer = torchport(*command, "--analyze-only")
    assert answer.code == code
    assert (behind.called, behind.given) == ("codegen", (Path("n_manifest.json"),))
    assert behind.options == {
        "out": Path("f.rs"),
        "model": "Net",
        "port": None,
        "analyze_only": True,
        "options": {},
    }
    assert f"todos: {len(todos)}" in answer.stdout
    assert json.loads(torchport(*command, "--json").stdout)["todos"] == todos


def test_version(torchport: Torchport) -> None:
    answer = torchport("--version")
    assert answer.code == 0 and answer.stdout.startswith("torchport")


def test_no_command_shows_the_help(torchport: Torchport) -> None:
    answer = torchport()
    assert answer.code == 0
    for command in ("port", "check", "record", "codegen", "doctor", "explain"):
        assert f"\n  {command}" in answer.stdout


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["explain", "TP0203"], ["port", "--help"]])
def test_what_needs_no_torch_does_not_import_it(arguments: list[str]) -> None:
    heavy = {"torch", "numpy", "rich.console"}
    script = f"""
import sys
from torchport.cli import main
main({arguments})
assert not {heavy} & sys.modules.keys(), {heavy} & sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("group", ["debug", "marble"])
def test_a_group_by_itself_says_what_there_is(torchport: Callable[..., Answer], group: str) -> None:
    answer = torchport(group)
    assert answer.code == 0 and f"torchport {group}" in answer.stdout and not answer.stderr
