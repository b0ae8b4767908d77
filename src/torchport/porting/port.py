"""A port: a captured model as an artifact of a target, in the folder of a run. `check()` proves it.

In: a model and example inputs, or a folder that was written before. Out: a `Port`, which always has its artifact.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from torchport.capture.eager import as_arguments
from torchport.capture.graph import Graph
from torchport.capture.manifest import read_manifest
from torchport.capture.recorder import record
from torchport.capture.symbols import parse_dynamic
from torchport.errors import CaptureError, DiskError, ManifestError
from torchport.events import Passing, Steps, Watcher, ignore
from torchport.explain.minify import minify
from torchport.explain.repro import Minified
from torchport.explain.suspect import RunValues
from torchport.parity.rulebook import RuleBook, rules_for
from torchport.porting import proof, recording
from torchport.porting.bench import PortBench
from torchport.porting.conversion import Converted, converted
from torchport.porting.cost import cost_of
from torchport.porting.overwriting import must_not_lose_work
from torchport.runs.changing import changing
from torchport.runs.folder import OF_A_PORT, OF_A_VERDICT, RunFolder, open_folder
from torchport.runs.report import Report
from torchport.runs.verdict import written
from torchport.targets.base import Resizable, Target, Todo
from torchport.targets.registry import DEFAULT, find_target, options_for

Inputs = tuple[Any, ...] | list[Any] | torch.Tensor
OTHER_INPUTS = "inputs"
"""What a check on other inputs is called if nobody names it."""


@dataclass
class Port(Converted):
    """A model somewhere else. `check()` proves it, on the recorded inputs or on others."""

    model: torch.nn.Module | None = None
    """The original, for checks on other inputs; a port that was opened from its folder has none until it is set."""
    watch: Watcher = ignore
    inputs: tuple[tuple[Any, ...], dict[str, Any]] | None = None
    """The example inputs, if the port was made in this process."""

    @classmethod
    def open(cls, directory: str | Path) -> Port:
        """A port that was made before, from the folder that it was written to."""
        files = open_folder(directory)
        if files.about.project is None:
            raise ManifestError(
                "TP0301",
                f"{files.path} holds a comparison of two models and no port",
                where=str(files.path),
                fix="Compare the models again from Python; `torchport report` shows this comparison.",
            )
        target = find_target(files.about.target)
        artifact = target.open(files.project, files.name)
        if files.about.sizes is not None and isinstance(artifact, Resizable):
            artifact = artifact.at_sizes(files.sizes)
        return cls(files, target, artifact)

    @cached_property
    def graph(self) -> Graph:
        """The graph that was ported."""
        return read_manifest(self.files.manifest)[0]

    def check(
        self,
        args: Inputs | None = None,
        kwargs: Mapping[str, Any] | None = None,
        *,
        rtol: float | None = None,
        atol: float | None = None,
        explain: bool = True,
        name: str = OTHER_INPUTS,
        inputs: str = OTHER_INPUTS,
    ) -> Report:
        """Runs the port and compares every layer with what PyTorch computed.

        A check on other inputs than the recorded ones is a run of its own, in `checks/NAME`; `inputs` says whose they
        are. If `model` is the same model made with other sizes, the port runs with these in its config, and its
        weights.
        If a layer diverges, `explain` looks for the operation and the cause, and keeps the layer's tensors with
        scripts that draw them and run it alone.
        """
        rules = rules_for(rtol, atol)
        if self.artifact.todos:
            return self._unsupported(self.artifact.todos)
        if args is None and kwargs is None:
            recording.must_have_values(self.files, self.artifact.folder)
            return self._proven(self.files, rules, self._steps(), explain, self.inputs)
        given = as_arguments(() if args is None else args)
        steps = self._steps(without="capture")
        beside = self.files.free_check(safe_name(name), inputs)
        with changing(beside.path, OF_A_PORT):
            beside.forget()
            with steps.step("capture", "recording the model on other inputs"):
                subject = recording.Subject(self.model, given, dict(kwargs or {}))
                other = recording.on_other_inputs(subject, self, beside)
            return replace(self, files=other.files, artifact=other.artifact)._proven(
                other.files, rules, steps, explain, (given, dict(kwargs or {}))
            )

    def minify(self) -> Minified:
        """Checks the port, and reduces what fails to the least that still does, as a script and a test."""
        with changing(self.files.path, OF_A_VERDICT):
            report = self.check()
            bench = PortBench(self.target, self.artifact, lambda text: self.watch(Passing(text)))
            values = RunValues.of(self.files, self.graph, self.artifact.stored)
            return minify(report, self.files, values, bench)

    def _proven(
        self,
        files: RunFolder,
        rules: RuleBook,
        steps: Steps,
        explain: bool,
        inputs: tuple[tuple[Any, ...], dict[str, Any]] | None,
    ) -> Report:
        graph = recording.sound(files, self.artifact.stored)
        with changing(files.path, OF_A_VERDICT):
            files.forget_verdict()
            report = proof.prove(self, files, graph, rules, steps)
            if report.stopped is None and report.layers:
                keeps_nothing = not read_manifest(self.files.manifest)[1].get("writes")
                original = (self.model, *inputs) if self.model and inputs and keeps_nothing else None
                cost = cost_of(self.artifact, files.captured("trace"), original)
                report = written(report.model_copy(update={"cost": cost}), files)
            if explain and report.first_divergence is not None:
                bench = PortBench(self.target, self.artifact, steps.tick)
                report = proof.explain(report, files, graph, bench, self.artifact.stored, steps)
        return report

    def _unsupported(self, todos: tuple[Todo, ...]) -> Report:
        found = proof.explained_todos(todos, self.graph)
        with changing(self.files.path, OF_A_VERDICT):
            self.files.forget_verdict()
            return written(proof.unsupported(self.target.name, self.files, found, self.seconds), self.files)

    def _steps(self, without: str | None = None) -> Steps:
        return Steps(self.watch, {step: taken for step, taken in self.seconds.items() if step != without})


def port(
    model: torch.nn.Module,
    args: Inputs,
    kwargs: Mapping[str, Any] | None = None,
    *,
    target: str = DEFAULT,
    out: str | Path | None = None,
    name: str | None = None,
    dynamic: str | dict[str, tuple[int, ...]] | None = None,
    watch: Watcher = ignore,
    force: bool = False,
    **options: Any,
) -> Port:
    """Captures a model and converts it. `check()` of what comes back runs and compares it.

    `options` are those of the target, such as `checks`, `hints` and `allow_random`, without which a model that draws
    random numbers is refused. A port in the folder that was edited by hand is only written over by `force`.
    """
    chosen = find_target(target)
    chosen_options = options_for(chosen, options)
    parse_dynamic(dynamic)
    name = safe_name(name or type(model).__name__)
    folder = folder_of_port(out, name)
    must_be_writable(folder)
    if not force:
        must_not_lose_work(folder, chosen)
    steps = Steps(watch)
    given = as_arguments(args)
    with steps.step("capture", "capturing the model"), _advising_only(chosen):
        capture = record(
            model,
            given,
            kwargs,
            name=name,
            dynamic=dynamic,
            ops=chosen_options.records_operations,
            variants=chosen_options.names_sizes,
            decompose=lambda op: not chosen.supports(op),
            allow_random=chosen_options.allows_random,
        )
    if capture.export_error is not None:
        error = capture.export_error
        steps.say(f"{error}; recorded by hooks, with TODOs for what these cannot see\n  next:  {error.fix}")
    made = converted(capture, chosen, folder, chosen_options, steps=steps)
    inputs = given, dict(kwargs or {})
    return Port(made.files, made.target, made.artifact, made.seconds, model, watch, inputs)


@contextmanager
def _advising_only(target: Target) -> Iterator[None]:
    """Within, nobody is advised to allow random numbers where the target has no such option."""
    try:
        yield
    except CaptureError as error:
        if error.code != "TP0204" or "allow_random" in target.options.model_fields:
            raise
        fix = "Pass random tensors in as inputs."
        raise CaptureError(error.code, error.message, where=error.where, fix=fix) from error


def must_be_writable(folder: Path) -> None:
    """A port takes minutes to make; that it cannot be written is said before."""
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        why = "is not a directory" if not there.is_dir() else "does not allow it"
        raise DiskError("TP0330", f"cannot write to {folder}: {there} {why}", where=str(folder))


def folder_of_port(out: str | Path | None, name: str) -> Path:
    """Where a port is written to."""
    return Path(out) if out is not None else Path("torchport-out") / name


def safe_name(name: str) -> str:
    """A name that is fit for files and crates."""
    text = re.sub(r"[^0-9A-Za-z_-]+", "_", name).strip("_-")
    return text or "model"
