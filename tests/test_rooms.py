"""Each room knows only what is its own: nothing outside `targets/candle` knows Rust."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "torchport"
OF_CANDLE = re.compile(r"rust(?!ed|y|worthy)|cargo|candle", re.IGNORECASE)
MAY = {
    SOURCE / "codes.py": "what `torchport explain` prints of each code",
    SOURCE / "targets" / "registry.py": "the table of targets",
}


def files(*endings: str) -> list[Path]:
    found = [path for path in SOURCE.rglob("*") if path.suffix in endings]
    inside = SOURCE / "targets" / "candle"
    return sorted(path for path in found if not path.is_relative_to(inside) and path not in MAY)


def in_code(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every name and string of a module, docstrings and the texts of a command's help aside."""
    texts = {id(text) for text in _documentation(tree)}
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        for field in ("id", "attr", "arg", "name", "asname", "module"):
            word = getattr(node, field, None)
            if isinstance(word, str):
                yield line, word
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in texts:
            yield line, node.value


def _documentation(tree: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value
        if isinstance(node, ast.keyword) and node.arg == "help":
            yield from ast.walk(node.value)


@pytest.mark.parametrize("path", files(".py"), ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_code_outside_the_candle_target_speaks_of_it(path: Path) -> None:
    found = [
        f"{line}: {text}" for line, text in in_code(ast.parse(path.read_text())) if OF_CANDLE.search(text)
    ]
    assert not found


@pytest.mark.parametrize("path", files(".js", ".html", ".css", ".tcss"), ids=lambda path: path.name)
def test_no_page_outside_the_candle_target_speaks_of_it(path: Path) -> None:
    assert not OF_CANDLE.findall(path.read_text())


def test_the_guard_sees_what_it_guards_against() -> None:
    text = (
        'import cargo_toml\ndef f(x, help="candle"):\n    """Rust."""\n    return x.rust + "model in Rust"\n'
    )
    assert sorted(word for _, word in in_code(ast.parse(text)) if OF_CANDLE.search(word)) == [
        "candle",
        "cargo_toml",
        "model in Rust",
        "rust",
    ]
