"""SPEC: the model that it names, or which of its parts is wrong and where."""

import sys
from pathlib import Path

import pytest
import torch

from torchport.capture.spec import load_file, load_spec, run_script
from torchport.errors import SpecError, TorchportError

GOOD = """
import torch
import neighbour

def build():
    return torch.nn.Linear(4, 3), (torch.ones(2, 4),)

def with_keywords():
    return neighbour.Model(), [torch.ones(2, 4)], {"scale": 2}

def defaults(size=4):
    return torch.nn.Linear(size, 3), ()

def alone(): return torch.nn.Linear(4, 3)
def nothing(): return None
def swapped(): return (torch.ones(2, 4),), torch.nn.Linear(4, 3)
def bare(): return torch.nn.Linear(4, 3), torch.ones(2, 4)
def four(): return torch.nn.Linear(4, 3), (), {}, 1
def keywords_as_list(): return torch.nn.Linear(4, 3), (), [1]
def numbered(): return torch.nn.Linear(4, 3), (), {1: 2}
def needs(size, depth): return None
def stops(): raise SystemExit(0)

def breaks():
    import json
    return json.loads("{")

number = 5
"""
NEIGHBOUR = """
import torch

class Model(torch.nn.Module):
    def forward(self, x, scale=1):
        return x * scale
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "neighbour.py").write_text(NEIGHBOUR)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("good", "neighbour", "bad", "package"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def refused(spec: str, code: str) -> SpecError:
    with pytest.raises(TorchportError) as caught:
        load_spec(spec)
    assert isinstance(caught.value, SpecError) and caught.value.code == code, str(caught.value)
    assert caught.value.fix
    return caught.value


@pytest.mark.parametrize("way", ["good.py:build", "good:build", "./good.py:build"])
def test_a_file_or_a_module(folder: Path, way: str) -> None:
    model, args, kwargs = load_spec(way)
    assert isinstance(model, torch.nn.Linear) and args[0].shape == (2, 4) and kwargs == {}


def test_a_file_imports_its_neighbours_and_may_give_keywords(folder: Path) -> None:
    subject = load_spec(f"{folder}/good.py:with_keywords")
    assert subject.kwargs == {"scale": 2} and isinstance(subject.args, tuple)


def test_a_callable_may_have_defaults(folder: Path) -> None:
    assert load_spec("good.py:defaults").args == ()


def test_files_of_one_name_do_not_mix(folder: Path) -> None:
    (folder / "other").mkdir()
    (folder / "other" / "good.py").write_text(GOOD.replace("Linear(4, 3)", "Linear(4, 9)"))
    assert load_spec("good.py:build").model.out_features == 3
    assert load_spec("other/good.py:build").model.out_features == 9
    assert load_spec("good.py:build").model.out_features == 3


def test_a_file_named_like_a_module_of_python_does_not_replace_it(folder: Path) -> None:
    import json

    (folder / "json.py").write_text(GOOD)
    load_file(folder / "json.py")
    assert sys.modules["json"] is json


@pytest.mark.parametrize("spec", ["", "good.py", "good.py:", ":build", "good.py:a b", "good.py:a.b"])
def test_what_is_not_a_spec(folder: Path, spec: str) -> None:
    assert "file.py:callable" in (refused(spec, "TP0101").fix or "")


@pytest.mark.parametrize(
    "spec", ["none.py:build", "nowhere:build", "good.nowhere:build", "no/where:build", ".:build", "..x:build"]
)
def test_what_is_not_there(folder: Path, spec: str) -> None:
    assert spec.rpartition(":")[0] in refused(spec, "TP0102").message


@pytest.mark.parametrize("name", ["nowhere", "number", "torch"])
def test_a_callable_that_is_not_there_names_those_that_are(folder: Path, name: str) -> None:
    error = refused(f"good.py:{name}", "TP0103")
    assert "build" in (error.fix or "") and "good.py" in (error.where or "")


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("x = 1\ndef f(:\n    pass\n", 2, "SyntaxError"),
        ("import torch\nimport a_package_that_is_not_there\n", 2, "a_package_that_is_not_there"),
        ("import json\n\n\njson.loads('{')\n", 4, "JSONDecodeError"),
        ("import sys\nsys.exit(3)\n", 2, "sys.exit"),
    ],
    ids=["syntax", "import", "raises", "exits"],
)
@pytest.mark.parametrize("way", ["bad.py:build", "bad:build"])
def test_a_file_that_fails_is_named_by_the_line(
    folder: Path, text: str, line: int, said: str, way: str
) -> None:
    (folder / "bad.py").write_text(text)
    error = refused(way, "TP0104")
    assert said in error.message
    assert error.where is not None and error.where.endswith(f"bad.py:{line}")
    assert "bad" not in sys.modules, "half a module must not stay"


@pytest.mark.parametrize("name", ["breaks", "stops"])
def test_a_callable_that_fails_is_named_by_the_users_line(folder: Path, name: str) -> None:
    where = refused(f"good.py:{name}", "TP0104").where or ""
    file, _, line = where.rpartition(":")
    assert file.endswith("good.py")
    assert GOOD.splitlines()[int(line) - 1].strip() in (
        'return json.loads("{")',
        "def stops(): raise SystemExit(0)",
    )


def test_a_tensor_alone_is_the_only_positional_input(folder: Path) -> None:
    subject = load_spec("good.py:bare")
    assert len(subject.args) == 1 and isinstance(subject.args[0], torch.Tensor) and subject.kwargs == {}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("alone", "a model alone"),
        ("nothing", "NoneType"),
        ("swapped", "(tuple, Linear)"),
        ("four", "(Linear, tuple, dict, int)"),
        ("keywords_as_list", "(Linear, tuple, list)"),
        ("numbered", "not strings"),
        ("needs", "size, depth"),
    ],
)
def test_what_is_not_a_model_and_its_inputs_is_described(folder: Path, name: str, said: str) -> None:
    error = refused(f"good.py:{name}", "TP0105")
    line = next(i for i, text in enumerate(GOOD.splitlines(), 1) if text.startswith(f"def {name}("))
    assert said in error.message and (error.where or "").endswith(f"good.py:{line}")


def test_a_script_runs_as_python_would_run_it(folder: Path) -> None:
    script = folder / "script.py"
    script.write_text(
        "import sys, neighbour\n"
        "if __name__ == '__main__':\n"
        "    open('ran', 'w').write(' '.join(sys.argv))\n"
        "    sys.exit(0)\n"
    )
    before = list(sys.argv), list(sys.path)
    run_script(script)
    assert (folder / "ran").read_text() == str(script)
    assert (sys.argv, sys.path) == before


@pytest.mark.parametrize(
    ("text", "said"),
    [("1/0", "ZeroDivisionError"), ("import sys; sys.exit('no')", "no"), ("def", "SyntaxError")],
)
def test_a_script_that_fails_is_a_coded_error(folder: Path, text: str, said: str) -> None:
    (folder / "script.py").write_text(text)
    with pytest.raises(TorchportError, match=f"TP0206.*{said}") as caught:
        run_script(folder / "script.py")
    assert "script.py" in (caught.value.where or "")
