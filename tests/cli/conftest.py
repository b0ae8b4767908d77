"""Running commands in this process, with the functions behind them stood in for."""

import sys
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from torchport.cli import main
from torchport.events import Message


class Answer(NamedTuple):
    code: int
    stdout: str
    stderr: str


@pytest.fixture
def torchport(capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    def call(*arguments: str) -> Answer:
        code = main(arguments)
        out, err = capsys.readouterr()
        return Answer(code, out, err)

    return call


class Behind:
    """Stands in for torchport.port: gives `result` or raises it, and keeps what it was called with."""

    def __init__(self) -> None:
        self.result: Any = None
        self.called: str | None = None
        self.given: tuple[Any, ...] = ()
        self.options: dict[str, Any] = {}

    def function(self, name: str) -> Callable[..., Any]:
        def call(*given: Any, **options: Any) -> Any:
            self.called, self.given, self.options = name, given, options
            if "watch" in options:
                options.pop("watch")(Message("working"))
            if isinstance(self.result, BaseException):
                raise self.result
            return self.result

        return call


@pytest.fixture
def behind(monkeypatch: pytest.MonkeyPatch) -> Behind:
    stand_in = Behind()
    module = types.ModuleType("torchport.porting.commands")
    for name in ("port_spec", "check_port", "record_spec", "record_script", "codegen", "minify_run"):
        setattr(module, name, stand_in.function(name))
    monkeypatch.setitem(sys.modules, "torchport.porting.commands", module)
    return stand_in
