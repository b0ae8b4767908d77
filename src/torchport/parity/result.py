"""The result of a comparison of traces: each layer's own and chained error, and the culprit."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

from torchport.parity.elements import Elements
from torchport.parity.metrics import Metrics
from torchport.parity.picture import Picture


class Measured(Metrics):
    """The metrics of one value of a trace, with its key and, if it is judged, the verdict."""

    key: str
    passed: bool | None = None
    """None for a value that is shown and not judged: the chained error of an inner layer."""
    rule: str | None = None
    ratio: float | None = None
    """The share of the rule's limit that the error takes up: above 1 fails."""
    judged: float | None = None
    """The distance that `ratio` is a share of the limit of; None if it was not a matter of distances."""
    reason: str | None = None
    elements: Elements | None = None
    """Which elements are wrong, if those of one magnitude are out of bounds."""

    @property
    def is_nan_everywhere(self) -> bool:
        """Whether neither side has a number, so that nothing is compared."""
        if self.incomparable is not None or not self.numel:
            return False
        return self.nan_golden == self.numel and not self.nan_mismatches


class Failure(BaseModel):
    """The first value of a layer that is wrong: which it is, what it is, and what is wrong with it."""

    model_config = ConfigDict(frozen=True)

    key: str
    what: str
    reason: str
    is_missing: bool
    """Whether the port computed no such value."""


class Layer(BaseModel):
    """One call of a module: the error that it makes itself, and the error that has reached its output."""

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings")

    name: str
    type: str
    own: Measured | None
    """The worst of the values that the call computed itself, from golden inputs (lock-step)."""
    chained: Measured | None
    """The worst of its outputs if every layer works on what the layers before it computed."""
    passed: bool
    reason: str | None = None
    """Why the layer failed, or why there was nothing to compare."""
    source: str | None = None
    """The line of the user's code that makes the call, or None if it is not known."""
    rule: str | None = None
    parent: str | None = None
    """The call that makes this call; None for the model itself."""
    picture: Picture | None = None
    """Where in the tensor of `own` the error lies, and how the values are spread."""
    uncompared: str | None = None
    """What of the layer was not compared, and why; None if all of it was."""
    arithmetic: str | None = None
    """The class of arithmetic that explains how far the layer is from the truth, if it is coarser than eager."""
    failure: Failure | None = None
    """Why it failed, in its parts, for whoever says it in other words."""
    cause: str | None = None
    """What explains the error, in words that do not name the layer; empty if nothing does, None if nobody looked."""
    unproven: bool = False
    """Whether it did not pass only because the original gives NaN everywhere, as the port does."""

    @property
    def fails(self) -> bool:
        """Whether the layer is wrong; one of which nothing is proven did not pass, but may be right."""
        return not self.passed and not self.unproven


class Operation(BaseModel):
    """The first operation inside the culprit that goes wrong although its operands are golden."""

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings")

    node: str
    op: str
    source: str | None
    reason: str
    metrics: Measured | None
    function: str | None = None
    """The function around the line, such as `Attention.forward`, if its file can be read."""


class Suggestion(BaseModel):
    """A hypothesis that was computed, and whose result is what the port computed."""

    model_config = ConfigDict(frozen=True)

    kind: str
    """A stable name of the hypothesis, such as `eps`."""
    text: str
    explains: float
    """The share of the squared error that is gone if the hypothesis is taken for true; 1 is all of it."""
    node: str | None = None


class Program(BaseModel):
    """What a program gives in the end, behind the check of the model itself: what its users get."""

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings")

    passed: bool
    own: Measured | None
    """The worst of its outputs if the model's golden outputs are handed to what comes behind the model."""
    chained: Measured | None
    """The worst of its outputs as users will see them."""
    reason: str | None = None
    """Why they are wrong."""
    source: str | None = None
    """The place in the program that hands the outputs over, if the run says so."""

    @property
    def is_nan_everywhere(self) -> bool:
        """Whether what fails fails only because the original has no number either."""
        measured = [one for one in (self.own, self.chained) if one is not None and not one.passed]
        return bool(measured) and all(one.is_nan_everywhere for one in measured)


class Divergence(BaseModel):
    """The culprit: the first call, in the order of execution, whose own error is out of bounds."""

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings")

    layer: str
    type: str
    source: str | None
    call: str
    """The call at which the error showed: the layer itself, or the call that was handed a wrong input."""
    what: str
    kind: Literal["own", "chained", "returned"]
    """`chained` if every layer is right by itself and the errors add up to too much; `returned` if the model is right
    and the program gives something else: what is wrong is done behind the check of `layer`, the model itself."""
    reason: str
    metrics: Measured | None
    """None if the port computed no such value."""
    key: str | None = None
    """The trace key of the value at which the error showed."""
    operation: Operation | None = None
    suggestions: tuple[Suggestion, ...] = ()
    edits: tuple[str, ...] = ()
    """The differences of the port's source from what was generated, as hunks of a unified diff."""
    snippet: str | None = None
    """The folder with the culprit's tensors and the scripts that draw them and run it alone."""

    @property
    def place(self) -> str:
        """What to call the place of the error: the layer, or what the program does behind it."""
        return f"the program behind {self.layer}" if self.kind == "returned" else self.layer


class Parity(BaseModel):
    """The verdict on a pair of runs of a port, lock-step and chained."""

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings")

    passed: bool
    rule: str
    layers: tuple[Layer, ...]
    first_divergence: Divergence | None
    outputs: Measured | None
    """The worst of the program's outputs, chained: the error that users will see."""
    program: Program | None = None
    """What the program gives in the end; None if the run does not say."""
    not_emulated: tuple[str, ...] = ()
    """In which ways the reference cannot be run by which a failed candidate might have been excused, and why."""
    compared: int
    """The number of values that were compared in lock-step, without empty ones."""
    without_truth: int = 0
    """Of these, the floats that were judged by fixed tolerances because their float64 truth is not known."""
    proves_little: tuple[str, ...] = ()
    """The layers with a value of which eager PyTorch itself loses more than half of the digits."""

    @property
    def unproven(self) -> tuple[str, ...]:
        """The layers of which nothing is proven, because the original gives NaN everywhere."""
        return tuple(layer.name for layer in self.layers if layer.unproven)
