"""A layer's picture in characters: the heatmap of its errors, and how its values are spread.

In: a `Picture`. Out: rich `Text`. Every cell has a digit or a number, so nothing is shown by colour alone.
"""

import math
from itertools import zip_longest

from rich.text import Text

from torchport.parity.picture import Picture

WIDE = 64
"""With this many columns or more, the cells hold numbers; with fewer, they hold digits."""
_COLOURS = ("#2b1a5c", "#641a80", "#a3307e", "#de4968", "#fb8861", "#fde0a1")
_LEVELS = len(_COLOURS)
_INFINITE = _LEVELS + 1
_BARS = " ▁▂▃▄▅▆▇█"
_LABEL = 10


def heatmap(picture: Picture, width: int) -> Text:
    """The largest error in each part of the tensor, with a legend of the levels beside it."""
    finite = [error for row in picture.errors for error in row if math.isfinite(error)]
    largest = max(finite, default=0.0)
    room = 6 if width >= WIDE else 3
    rows = [_row(row, largest, room) for row in picture.errors]
    blank = Text(" " * room * max((len(row) for row in picture.errors), default=0))
    lines = [
        Text.assemble(row, "  ", meaning)
        for row, meaning in zip_longest(rows, _legend(largest), fillvalue=blank)
    ]
    return Text("\n").join(lines)


def level(error: float, largest: float) -> int:
    """The level of an error: 0 for none, then one for each half decade up to the largest, then one for NaN and Inf."""
    if not math.isfinite(error):
        return _INFINITE
    if error == 0:
        return 0
    share = error / largest
    return max(1, _LEVELS + math.ceil(2 * math.log10(share))) if share > 0 else 1


def histograms(picture: Picture, width: int) -> Text:
    """The values of both sides over the same range and on the same scale."""
    top = max((*picture.golden, *picture.candidate, 1))
    times = 2 if width >= WIDE else 1
    lines = [
        Text.assemble((f"{name:<{_LABEL}}", "bold"), (_bars(counts, top, times), colour))
        for name, counts, colour in (
            ("golden", picture.golden, "cyan"),
            ("port", picture.candidate, "yellow"),
        )
    ]
    low, high = f"{picture.low:.2g}", f"{picture.high:.2g}"
    axis = low + high.rjust(len(picture.golden) * times - len(low))
    return Text("\n").join([*lines, Text(" " * _LABEL + axis)])


def _row(errors: tuple[float, ...], largest: float, room: int) -> Text:
    return Text.assemble(*(_cell(error, level(error, largest), room) for error in errors))


def _cell(error: float, which: int, room: int) -> tuple[str, str]:
    text = _sign(which) if room < 6 or which in (0, _INFINITE) else f"{error:.0e}"
    return text.center(room), _style(which)


def _sign(which: int) -> str:
    return {0: "·", _INFINITE: "∞"}.get(which, str(which))


def _style(which: int) -> str:
    if which == 0:
        return ""
    if which == _INFINITE:
        return "bold #000000 on #ffffff"
    return f"{'#ffffff' if which <= 4 else '#000000'} on {_COLOURS[which - 1]}"


def _legend(largest: float) -> list[Text]:
    """One line for each level, the largest first, and at most as many lines as a picture has."""
    bounds = [(which, largest * 10 ** ((which - _LEVELS) / 2)) for which in range(_LEVELS, 0, -1)]
    meanings = [(which, f"≤ {bound:.2e}") for which, bound in bounds] if largest > 0 else []
    meanings += [(0, "no error"), (_INFINITE, "NaN or Inf")]
    return [Text.assemble((f" {_sign(which)} ", _style(which)), f" {text}") for which, text in meanings]


def _bars(counts: tuple[int, ...], top: int, times: int) -> str:
    """One bar for each bin; a bin with any value in it is never blank."""
    heights = (math.ceil(count / top * (len(_BARS) - 1)) for count in counts)
    return "".join(_BARS[height] * times for height in heights)
