"""Results of benchmarks on the terminal: each model in one line, then every row, then what went wrong."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from torchport.bench.backends import EAGER, INDUCTOR
from torchport.bench.results import Latency, Results, Row

_STYLES = {"pass": "green", "fail": "bold red", "failed": "bold red", "timeout": "bold red"}
_NUMBERS = ("compile s", "avg ± std ms", "× eager", "peak MB", "graphs", "breaks", "violations")


def render(results: Results, console: Console) -> None:
    """Prints the results; the summary is of Inductor, or of the only other backend."""
    others = [name for name in dict.fromkeys(row.backend for row in results.rows) if name != EAGER]
    if INDUCTOR in others or len(others) == 1:
        _summary(results, INDUCTOR if INDUCTOR in others else others[0], console)
    _rows(results, console)
    _problems(results, console)
    console.print(
        f"{results.device}, torch {results.torch}, {results.threads} threads; {results.runs} runs after "
        f"{results.warmup} to warm up, eager and backend in turn"
    )


def _summary(results: Results, backend: str, console: Console) -> None:
    table = Table("model", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("eager ms", f"{backend} ms", "speed-up"):
        table.add_column(heading, justify="right")
    table.add_column("verdict")
    for one in results.summary(backend):
        speedup = "–" if one.speedup is None else f"{one.speedup:.2f} ×"
        table.add_row(
            one.model, _number(one.eager_ms), _number(one.backend_ms), speedup, _styled(one.verdict)
        )
    console.print(table)


def _rows(results: Results, console: Console) -> None:
    table = Table("model", "backend", box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    for heading in _NUMBERS:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for row in results.rows:
        table.add_row(row.model, row.backend, *_cells(row), _styled(_word(row)))
    console.print(table)


def _cells(row: Row) -> list[str]:
    memory = None if row.peak_memory_bytes is None else row.peak_memory_bytes / 1e6
    return [
        _number(row.compile_seconds),
        _spread(row.latency),
        _number(row.speedup),
        _number(memory),
        *("–" if count is None else str(count) for count in (row.graphs, row.breaks, row.violations)),
    ]


def _word(row: Row) -> str:
    if row.status != "measured":
        return row.status
    return "–" if row.backend == EAGER else row.verdict


def _problems(results: Results, console: Console) -> None:
    for row in results.rows:
        if (reason := row.problem or row.verdict_reason) is not None:
            console.print(Text(f"{row.model} on {row.backend}: {reason}", overflow="fold"), soft_wrap=True)


def _spread(latency: Latency | None) -> str:
    return "–" if latency is None else f"{latency.average:.1f} ± {latency.deviation:.1f}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def _styled(word: str) -> Text:
    return Text(word, style=_STYLES.get(word, ""))
