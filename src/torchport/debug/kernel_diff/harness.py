"""KernelDiff: a backend of torch.compile against eager PyTorch, at every node, module and gradient."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from torchport.arithmetic.classes import FLOAT32, find_arithmetic
from torchport.candidates.stored_tensors import scratch_folder
from torchport.capture.state import alone
from torchport.debug.comparing import ComparisonConfig
from torchport.debug.kernel_diff.comparison import Comparison
from torchport.debug.kernel_diff.diff_report import DiffReport, several
from torchport.debug.kernel_diff.drawing import draw
from torchport.debug.kernel_diff.route import route_of
from torchport.debug.kernel_diff.whole_model import WholeModel
from torchport.debug.tree import ArtifactTree
from torchport.errors import UsageError

Backend = str | Callable[..., Any]


class KernelDiffHarness:
    """Compares what a backend makes of a model with what eager PyTorch, and float64, make of it.

    `example_inputs` are the arguments: a tensor, a tuple or list of positional ones, a dict of named ones, or both as a
    tuple. What was captured and compiled is kept, so that `compare` may be called again.
    """

    def __init__(
        self,
        model: nn.Module,
        example_inputs: Any,
        *,
        model_name: str | None = None,
        reference_backend: Backend = "eager",
        test_backend: Backend = "inductor",
        config: ComparisonConfig | None = None,
        tree: ArtifactTree | None = None,
    ) -> None:
        self.config = config or ComparisonConfig()
        self.tree = tree
        args, kwargs = split_inputs(example_inputs)
        name = model_name or type(model).__name__
        whole = WholeModel.of(model, args, kwargs, gradients=self.config.gradients, loss=self.config.loss)
        route = route_of(test_backend)
        arithmetic = find_arithmetic(self.config.arithmetic or route.arithmetic or FLOAT32.name)
        reference = None if reference_backend == "eager" else route_of(reference_backend)
        self._comparison = Comparison(whole, route, reference, name, self.config, arithmetic)
        self._is_prepared = False

    def compare(self, generate_visualizations: bool = False, out: str | Path | None = None) -> DiffReport:
        """Runs and judges everything. With `out`, the values are kept there, for `torchport report` and `tui`.

        Pictures go to the artifact tree, or else to the folder `out`.
        """
        place = None if out is None else Path(out)
        with alone():
            self._comparison.whole.keep_weights()
            if not self._is_prepared:
                self._comparison.prepare()
                self._is_prepared = True
            runs = []
            for number in range(self.config.runs):
                with scratch_folder() as scratch:
                    runs.append(self._comparison.run(scratch, place if number == 0 else None))
        shown, variance = several(runs)
        pictures = draw(shown.report, self._place_of_pictures(place)) if generate_visualizations else ()
        reports = tuple(run.report for run in runs)
        return DiffReport(shown.report, shown.verdict, reports, variance, pictures)

    def _place_of_pictures(self, out: Path | None) -> ArtifactTree:
        if self.tree is not None:
            return self.tree
        return ArtifactTree(out or Path("torchport-out") / "kernel_diff", self._comparison.name)


def split_inputs(given: Any) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """Positional and named arguments, from however the inputs are given."""
    if isinstance(given, Tensor):
        return (given,), {}
    if isinstance(given, Mapping):
        return (), dict(given)
    if (
        isinstance(given, tuple)
        and len(given) == 2
        and isinstance(given[0], tuple)
        and isinstance(given[1], dict)
    ):
        return given[0], given[1]
    if isinstance(given, tuple | list):
        return tuple(given), {}
    raise UsageError(
        "TP0801",
        f"example_inputs is of class {type(given).__name__}",
        fix="give a tensor, a tuple of arguments, a dict of named ones, or (args, kwargs)",
    )
