"""The dashboard itself. In: a run that is finished, or a job that makes one. Out: what the keys do."""

from pathlib import Path

from rich.console import Group
from rich.markup import escape
from rich.text import Text
from textual import on
from textual.app import App, ComposeResult, SuspendNotSupported
from textual.binding import Binding
from textual.containers import Container, Vertical, VerticalScroll
from textual.widgets import Footer, Input, RichLog, Static

from torchport.parity.result import Divergence, Layer
from torchport.report import phrases
from torchport.report.tui import banner, dialogs, editor, facts, picture, snippets
from torchport.report.tui.job import Job
from torchport.report.tui.table import LayerTable
from torchport.runs.report import Report
from torchport.runs.run import Run

TICK = 0.1
PATIENCE = 5.0
"""The seconds that work is given to end after it was asked to stop."""


class FilterBox(Input):
    BINDINGS = [
        Binding("enter", "submit", "Keep the filter"),
        Binding("escape", "app.clear_filter", "Clear it"),
    ]


class Dashboard(App[None]):
    """`Dashboard(run)` shows a finished run, `Dashboard(job=job)` one that is being made."""

    TITLE = "torchport"
    CSS_PATH = "dashboard.tcss"
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (132, "-wide")]
    BINDINGS = [
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("f", "only_failing", "Failing"),
        Binding("n", "next_failing(1)", "Next", key_display="n/N"),
        Binding("N", "next_failing(-1)", "Previous", show=False),
        Binding("c", "culprit", "Culprit"),
        Binding("o", "snippet", "Snippet"),
        Binding("e", "edit", "Edit"),
        Binding("l", "log", "Log"),
        Binding("question_mark", "keys", "Help", key_display="?"),
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", "Quit", show=False, priority=True),
        Binding("escape", "clear_filter", "All", show=False),
    ]

    def __init__(self, run: Run | None = None, job: Job | None = None) -> None:
        super().__init__()
        self.job = job
        self.report: Report | None = None if run is None else run.report
        self.folder: Path | None = None if run is None else run.folder
        self.layers: list[Layer] = [] if run is None else list(run.report.layers)
        self.only_failing = False
        self._ticks = 0
        self._patience = PATIENCE

    def compose(self) -> ComposeResult:
        self.verdict, self.steps = Static(id="verdict"), Static(id="steps")
        self.table, self.typed = LayerTable(id="table"), FilterBox(id="filter")
        self.facts, self.picture = Static(id="facts"), Static(id="picture")
        self.framed = Vertical(self.table, self.typed, id="layers")
        self.details = VerticalScroll(self.facts, id="details")
        self.body = Container(self.framed, Container(self.details, self.picture, id="lower"), id="body")
        self.printed = RichLog(id="log", max_lines=5000, wrap=True)
        footer = Footer(show_command_palette=False)
        footer.compact = True
        yield from (self.verdict, self.steps, self.body, self.printed, footer)

    def on_mount(self) -> None:
        self.typed.placeholder = "part of a name or type"
        self.printed.border_title = "Printed by your code"
        self.typed.display = False
        self.printed.display = self.job is not None
        self.table.focus()
        if self.job is None:
            self._finish()
        else:
            self.body.add_class("-no-layers")
            self.job.start()
            self._ticking = self.set_interval(TICK, self._tick)
            self._tick()

    # What comes in

    def _tick(self) -> None:
        """Shows what the job has done since the last tick."""
        job = self.job
        assert job is not None
        ended = not job.alive
        self._ticks += 1
        self._log_prints()
        new = job.layers[len(self.layers) :]
        if new:
            self._arrived(new)
        self.verdict.update(banner.doing(job, self._ticks))
        self.steps.update(banner.taking(job, self._ticks))
        if job.stopped:
            self._wait_for_end(job)
        elif ended:
            self._ticking.stop()
            self.set_interval(1, self._log_prints)
            self._ended(job)

    def _wait_for_end(self, job: Job) -> None:
        self._patience -= TICK
        if not job.alive or self._patience <= 0:
            self.exit()
        elif self._ticks % 10 == 0:
            job.stop()  # Code may have swallowed the first interrupt, and started more programs since.

    def _log_prints(self) -> None:
        while self.job is not None and self.job.printed:
            self.printed.write(Text.from_ansi(self.job.printed.popleft()))

    def _arrived(self, new: list[Layer]) -> None:
        if not self.layers:
            self.body.remove_class("-no-layers")
            self.printed.display = False
        self.layers += new
        self.table.append([layer for layer in new if self._wanted(layer)])
        self._count()

    def _ended(self, job: Job) -> None:
        if job.report is not None:
            self.report = job.report
            self.folder = None if job.report.report is None else Path(job.report.report).parent
            self.layers = list(job.report.layers)
            self._finish()
        elif job.error is not None:
            self.layers = []
            self._refill()
            self.body.add_class("-no-layers")
            self.facts.update(facts.of_error(job.error))
            self.details.border_title = "Error"

    def _finish(self) -> None:
        """Shows the verdict, and goes to the culprit."""
        report = self.report
        assert report is not None
        self.verdict.update(banner.verdict(report))
        self.steps.update(banner.taken(report))
        self.body.set_class(not self.layers, "-no-layers")
        if not self.layers:
            self.facts.update(facts.of_nothing(report))
            self.details.border_title = "No layer was judged"
            return
        if (culprit := report.first_divergence) is not None:
            self.table.culprit = culprit.layer
        self._refill()
        if culprit is not None:
            self.call_after_refresh(self._select, culprit.layer)

    # What is shown

    def _refill(self) -> None:
        words = self.typed.value
        empty = f"No layer matches {words!r}." if words else "No layer fails."
        self.table.show(filter(self._wanted, self.layers), empty)
        self._count()

    def _wanted(self, layer: Layer) -> bool:
        if self.only_failing and not layer.fails:
            return False
        text = f"{layer.name} {layer.type}".casefold()
        return all(word in text for word in self.typed.value.casefold().split())

    def _count(self) -> None:
        failing = sum(layer.fails for layer in self.layers)
        shown, known = len(self.table.rows), len(self.layers)
        number = f"{known}" if shown == known else f"{shown} of {known}"
        only = ", only failing shown" if self.only_failing else ""
        self.framed.border_title = f"{number} layers, {failing} failing{only}"

    @on(LayerTable.Selected)
    def _show(self) -> None:
        layer = self.table.selected
        if not self.layers:
            return
        if layer is None:
            self.facts.update("")
            self.picture.update("")
            return
        self.details.border_title = "Details"
        culprit = self._as_culprit(layer)
        also = "" if culprit is None or self.report is None else phrases.also_in(self.report)
        self.facts.update(facts.of_layer(layer, culprit, also))
        self.details.scroll_home(animate=False)
        self._draw(layer)

    def _draw(self, layer: Layer) -> None:
        self.picture.border_title = "Error by place, of what is allowed"
        if layer.picture is None:
            self.picture.update("There is nothing to draw: no two tensors of one shape.")
            return
        width = self.picture.size.width
        drawn = [
            picture.heatmap(layer.picture, phrases.allowed_error(layer), width),
            picture.histograms(layer.picture, width),
        ]
        if width >= picture.WIDE:
            drawn.insert(1, Text())
        self.picture.update(Group(*drawn))

    def on_resize(self) -> None:
        self.call_after_refresh(self._show)

    def _as_culprit(self, layer: Layer) -> Divergence | None:
        culprit = None if self.report is None else self.report.first_divergence
        return culprit if culprit is not None and culprit.layer == layer.name else None

    # What keys do

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Whether a key works now: the key of the filter is a letter like others while a filter is typed."""
        return action != "filter" or not isinstance(self.focused, FilterBox)

    def action_filter(self) -> None:
        if self.layers:
            self.typed.display = True
            self.typed.focus()

    @on(Input.Changed)
    def _filter(self) -> None:
        self._refill()

    @on(Input.Submitted)
    def _keep_filter(self) -> None:
        self.typed.display = bool(self.typed.value)
        self.table.focus()

    def action_clear_filter(self) -> None:
        self.typed.value = ""
        self.typed.display = False
        self.table.focus()

    def action_only_failing(self) -> None:
        self.only_failing = not self.only_failing
        self._refill()

    def action_next_failing(self, step: int) -> None:
        if not self.table.select_where(lambda layer: layer.fails, step):
            self._say("No layer fails.")

    def action_culprit(self) -> None:
        culprit = None if self.report is None else self.report.first_divergence
        if culprit is None:
            self._say("There is no verdict yet." if self.report is None else "There is no culprit.")
            return
        if not self._select(culprit.layer):
            self.only_failing = False
            self.action_clear_filter()
            self._refill()
            self._select(culprit.layer)

    def _select(self, name: str) -> bool:
        return self.table.select_where(lambda layer: layer.name == name)

    def action_snippet(self) -> None:
        layer = self.table.selected
        if layer is None or self.report is None:
            self._say("There is no verdict yet." if self.report is None else "No layer is selected.")
            return
        folder = snippets.folder_of(layer, self.report, self.folder)
        if folder is None:
            self._say(f"There is no snippet of {layer.name}: only layers that fail have one.")
            return
        self.push_screen(dialogs.snippet(layer.name, folder))

    def action_edit(self) -> None:
        layer = self.table.selected
        command = editor.command(None if layer is None else self._source(layer))
        if isinstance(command, str):
            self._say(command)
            return
        try:
            with self.suspend():
                problem = editor.run(command)
        except SuspendNotSupported:
            problem = "this terminal cannot be handed to an editor"
        if problem is not None:
            self._say(problem)

    def _say(self, message: str) -> None:
        self.notify(escape(message))

    def _source(self, layer: Layer) -> str | None:
        culprit = self._as_culprit(layer)
        if culprit is not None and culprit.operation is not None and culprit.operation.source:
            return culprit.operation.source
        return layer.source

    def action_log(self) -> None:
        if self.job is None:
            self._say("Nothing is kept of what a finished run printed.")
            return
        self.printed.display = not self.printed.display

    def action_keys(self) -> None:
        self.push_screen(dialogs.keys())

    async def action_quit(self) -> None:
        job = self.job
        if job is None or not job.alive:
            self.exit()
        elif not job.stopped and not isinstance(self.screen, dialogs.AskToStop):
            self.push_screen(dialogs.AskToStop(), self._stop)

    def _stop(self, wanted: bool | None) -> None:
        if not wanted or self.job is None:
            return
        if self.job.alive:
            self.job.stop()
        else:
            self.exit()
