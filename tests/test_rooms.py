"""Each room knows only what is its own: `targets/candle` knows Rust, and one module the names in a run's folder."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "torchport"
OF_CANDLE = re.compile(r"(?<!t)rust(?!y)|cargo|candle|\.rs\b", re.IGNORECASE)
MAY = {
    SOURCE / "codes" / "ports.py": "what `torchport explain` prints of each code",
    SOURCE / "targets" / "registry.py": "the table of targets",
    SOURCE / "candle.py": "the names of the target that users import",
    SOURCE / "__init__.py": "where these names are found",
}
IN_A_RUN = re.compile(
    r"run\.json|report\.(json|html)|(lockstep|chained)\.safetensors|snippets|minified"
    r"|\w*_(manifest\.json|(trace|truth|weights)\.safetensors)"
)
KNOW_THE_NAMES = {SOURCE / "runs" / "folder.py", SOURCE / "capture" / "file_names.py"}


def files_outside_the_target() -> list[Path]:
    inside = SOURCE / "targets" / "candle"
    found = [path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return sorted(path for path in found if not path.is_relative_to(inside) and path not in MAY)


def words_of(path: Path) -> Iterator[tuple[int, str]]:
    """The words of a file that could give a target away, each with its line."""
    if path.suffix == ".py":
        yield from in_code(ast.parse(path.read_text()))
    else:
        yield from enumerate(path.read_text().splitlines(), 1)


def in_code(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every name and string of a module, docstrings and the help of a command's options aside."""
    texts = {id(text) for text in _documentation(tree)}
    for node in ast.walk(tree):
        if id(node) in texts:
            continue
        line = getattr(node, "lineno", 0)
        for _, value in ast.iter_fields(node):
            for word in value if isinstance(value, list) else [value]:
                if isinstance(word, str | bytes):
                    yield line, word if isinstance(word, str) else word.decode("latin-1")
        if (joined := _joined(node)) is not None:
            yield line, joined


def _joined(node: ast.AST) -> str | None:
    """The text of strings that are added, or that stand in an f-string, as far as it is written there."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_joined(part) or "" for part in parts)
        case ast.FormattedValue(value=inner):
            return _joined(inner)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            first, second = _joined(left), _joined(right)
            return None if first is None or second is None else first + second
        case _:
            return None


def _documentation(tree: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("typer.Option", "typer.Argument"):
            yield from (part for given in node.keywords if given.arg == "help" for part in ast.walk(given))


@pytest.mark.parametrize("path", files_outside_the_target(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_nothing_outside_the_candle_target_speaks_of_it_in_code(path: Path) -> None:
    assert not OF_CANDLE.search(str(path.relative_to(SOURCE)))
    assert not [f"{line}: {text}" for line, text in words_of(path) if OF_CANDLE.search(text)]


@pytest.mark.parametrize(
    "text",
    [
        "import cargo_toml",
        "from torchport.targets import candle",
        "x.rust",
        "run('model in Rust')",
        "run(b'cargo')",
        "open('src/model.rs')",
        "run('car' + 'go')",
        """run(f'{"car"}go')""",
        "run(help='cargo build')",
        "def f(help='candle'): ...",
        "def f():\n    global rust_source",
        "match x:\n    case {**cargo}: ...",
    ],
)
def test_the_guard_sees_what_it_guards_against(text: str) -> None:
    assert any(OF_CANDLE.search(word) for _, word in in_code(ast.parse(text)))


@pytest.mark.parametrize(
    "text",
    ["'''Rust.'''", "x: int\n'''Candle.'''", "typer.Option('--to', help='Such as candle.')", "trusted = 1"],
)
def test_the_guard_lets_documentation_and_help_be(text: str) -> None:
    assert not any(OF_CANDLE.search(word) for _, word in in_code(ast.parse(text)))


def test_one_module_knows_the_names_in_the_folder_of_a_run_and_one_those_of_a_capture() -> None:
    """The test looks at whole strings, since a message may speak of a file."""
    spelled = {
        f"{path.relative_to(SOURCE)}:{line}: {text}"
        for path in SOURCE.rglob("*.py")
        if path not in KNOW_THE_NAMES
        for line, text in strings_in(ast.parse(path.read_text()))
        if IN_A_RUN.fullmatch(text.rpartition("/")[2])
    }
    assert not spelled


def strings_in(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant | ast.JoinedStr) and (text := _joined(node)) is not None:
            yield node.lineno, text
