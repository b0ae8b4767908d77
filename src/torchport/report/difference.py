"""A Difference on the terminal: the verdict first, then the first difference, the worst tensors and lone names."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from torchport.diff.result import ComparedSet, Difference, Entry
from torchport.parity.percent import percent
from torchport.report.escaping import escaped

WORST, NAMES = 10, 10
_COLUMNS = ("Max abs", "RMS", "Cosine", "Mismatch")


def render(difference: Difference, console: Console, *, everything: bool = False) -> None:
    """Prints `difference`: the worst tensors, or, with `everything`, all of them in order and all lone names."""
    _verdict(difference, console)
    _first(difference, console)
    shown = list(difference.entries) if everything else difference.worst()[:WORST]
    _table(difference, shown, console, everything)
    for letter, names in (("A", difference.only_in_a), ("B", difference.only_in_b)):
        _names(f"Only in {letter}: {len(names)}", names, console, everything)
    if difference.suggestion is not None:
        console.print(Text(f"\nPerhaps {escaped(difference.suggestion)}."))
    _sides(difference, console)


def _verdict(difference: Difference, console: Console) -> None:
    word, style = ("SAME", "bold green") if difference.passed else ("DIFFERENT", "bold red")
    console.print(Text.assemble((word, style), "  ", (headline(difference), "bold")), soft_wrap=True)


def headline(difference: Difference) -> str:
    """The verdict in one line: how many tensors are identical, close enough, different, or on one side only."""
    if difference.identical == len(difference.entries) and difference.passed:
        return f"{_tensors(difference.identical)} identical"
    counts = [
        (difference.differing, f"of {_tensors(len(difference.entries))} differ"),
        (difference.within_tolerance, "within tolerance"),
        (difference.identical, "identical"),
        (len(difference.only_in_a), "only in A"),
        (len(difference.only_in_b), "only in B"),
    ]
    said = ", ".join(f"{count} {what}" for count, what in counts if count)
    return f"{said} ({difference.rule})"


def _first(difference: Difference, console: Console) -> None:
    entry = difference.first_difference
    if entry is None:
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    order = "in the order of execution" if difference.order == "execution" else "in the order of A"
    table.add_row(Text("First", style="bold"), Text.assemble((escaped(entry.name), "bold red"), f"  {order}"))
    table.add_row("  why", Text(escaped(entry.reason or "")))
    if entry.incomparable is None:
        table.add_row("  error", Text(_error(entry)))
    console.print(Padding(table, (1, 0, 0, 0)))


def _table(difference: Difference, entries: Sequence[Entry], console: Console, everything: bool) -> None:
    if not entries:
        return
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("", no_wrap=True)
    table.add_column("Tensor" if everything else "Worst", overflow="fold")
    for heading in _COLUMNS:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("Shape", no_wrap=True)
    for entry in entries:
        table.add_row(_word(entry), Text(_name(entry)), *_numbers(entry), Text(_shape(entry)))
    console.print(Padding(table, (1, 0, 0, 0)))
    left = sum(not entry.identical for entry in difference.entries) - len(entries)
    if left > 0 and not everything:
        console.print(f"and {left} more; --all shows every tensor")


def _word(entry: Entry) -> Text:
    if not entry.passed:
        return Text("DIFF", style="bold red")
    word = "same" if entry.identical else "equal" if entry.max_abs == 0.0 else "close"
    return Text(word, style="green")


def _name(entry: Entry) -> str:
    both = entry.name if entry.name == entry.candidate_name else f"{entry.name} ({entry.candidate_name})"
    return escaped(both)


def _numbers(entry: Entry) -> tuple[str, str, str, str]:
    if entry.incomparable is not None:
        return "-", "-", "-", percent(1.0)
    errors = _number(entry.max_abs), _number(entry.rmse)
    return *errors, f"{entry.cosine:.7g}", percent(entry.mismatch_pct / 100)


def _error(entry: Entry) -> str:
    at = "" if entry.worst_index is None else f" at {list(entry.worst_index)}"
    return f"max {_number(entry.max_abs)}{at}, rms {_number(entry.rmse)}, cosine {entry.cosine:.7g}"


def _number(value: float) -> str:
    return f"{value:.2g}"


def _shape(entry: Entry) -> str:
    """The shape and dtype of the tensors, or those of each if they differ."""
    shapes = dict.fromkeys(str(list(shape)) for shape in (entry.golden_shape, entry.candidate_shape))
    dtypes = dict.fromkeys((entry.golden_dtype, entry.candidate_dtype))
    return f"{' / '.join(shapes)} {' / '.join(dtypes)}"


def _names(title: str, names: Sequence[str], console: Console, everything: bool) -> None:
    if not names:
        return
    console.print(Text(f"\n{title}", style="bold"))
    shown = names if everything else names[:NAMES]
    for name in shown:
        console.print(Text(f"  {escaped(name)}"), soft_wrap=True)
    if len(names) > len(shown):
        console.print(f"  and {len(names) - len(shown)} more")


def _sides(difference: Difference, console: Console) -> None:
    table = Table.grid(padding=(0, 2, 0, 0))
    for letter, side in (("A", difference.a), ("B", difference.b)):
        table.add_row(Text(letter, style="bold"), Text(_taken(side), overflow="fold"))
    console.print(Padding(table, (1, 0, 0, 0)))


def _taken(side: ComparedSet) -> str:
    """The path that was given, and the files that were read for it if they are others."""
    files = "" if side.files in ((), (side.given,)) else f": {side.files[0]}"
    more = f" and {len(side.files) - 1} more" if len(side.files) > 1 else ""
    return f"{side.given} ({side.kind}{files}{more}, {_tensors(side.tensors)})"


def _tensors(number: int) -> str:
    return f"{number} tensor" if number == 1 else f"{number} tensors"
