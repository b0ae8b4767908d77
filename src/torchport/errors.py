"""Every way torchport can fail, each with a stable code that `torchport explain` knows.

    TorchportError
    ├── SpecError        TP01xx   the model named on the command line cannot be had
    ├── CaptureError     TP02xx   the model cannot be recorded
    ├── ManifestError    TP030x   a manifest cannot be read
    ├── TraceError       TP031x   a trace cannot be read, or lacks something
    ├── WeightsError     TP032x   a weights file lacks something
    ├── DiskError        TP033x   a file cannot be written
    ├── ReportError      TP034x   a run's report cannot be read, or lacks something
    ├── QuantError       TP035x   weights cannot be quantised, or a file of quantised weights cannot be read
    ├── GraphFileError   TP036x   a file of a neuron graph cannot be read or written
    ├── ConvertError     TP04xx   the capture cannot be turned into code
    ├── BuildError       TP05xx   the code cannot be built
    ├── RunError         TP06xx   the port cannot be run
    ├── ParityError      TP07xx   the port ran and does not agree (also an AssertionError)
    ├── UsageError       TP08xx   a command or function was asked for something it does not have
    ├── NeuronError      TP09xx   a graph of neurons cannot be changed, read or run
    └── CompileError     TP10xx   a graph of torch.compile breaks a constraint, or cannot be looked into

An error is raised where the fact is known, with the fact in it, and turned into text once, in
`cli`: `CaptureError("TP0203", "what happened", where="path at file:line", fix="next step")`. Ctrl-C is no error:
what it stops may raise `Stopped`, which says what is there.
"""

from torchport.codes import CODES, Explanation
from torchport.spelling import spelled

__all__ = [
    "CODES",
    "BuildError",
    "CaptureError",
    "CompileError",
    "ConvertError",
    "DiskError",
    "Explanation",
    "GraphFileError",
    "ManifestError",
    "NeuronError",
    "ParityError",
    "QuantError",
    "ReportError",
    "RunError",
    "SpecError",
    "Stopped",
    "TorchportError",
    "TraceError",
    "UsageError",
    "WeightsError",
]


class TorchportError(Exception):
    """An error with a code, the facts, the place, and the next step.

    Arguments are written `[[name]]`, which becomes a flag on the command line.
    `fix` falls back to the general advice for the code, so that there always is a next step.
    """

    def __init__(self, code: str, message: str, where: str | None = None, fix: str | None = None) -> None:
        if code not in CODES:
            raise KeyError(f"{code} is not in torchport.codes.CODES; add it there first")
        super().__init__(code, message, where, fix)
        self.code = code
        self.message = spelled(message)
        self.where = where
        self.fix: str | None = spelled(CODES[code].fix if fix is None else fix)

    def __str__(self) -> str:
        place = f" ({self.where})" if self.where else ""
        return f"{self.code}: {self.message}{place}"


class SpecError(TorchportError):
    """The model named by a SPEC, or what belongs to it, cannot be had."""


class CaptureError(TorchportError):
    """The model cannot be recorded."""


class ManifestError(TorchportError):
    """A manifest cannot be read."""


class TraceError(TorchportError):
    """A trace cannot be read, or lacks something."""


class WeightsError(TorchportError):
    """A weights file lacks a tensor or has a wrong one."""


class ConvertError(TorchportError):
    """The capture cannot be turned into code."""


class BuildError(TorchportError):
    """The generated code cannot be built."""


class RunError(TorchportError):
    """The port was built and cannot be run."""


class ParityError(TorchportError, AssertionError):
    """The port ran and does not agree; an AssertionError too, so that tests read naturally."""


class DiskError(TorchportError):
    """A file cannot be written."""


class ReportError(TorchportError):
    """The report of a run cannot be read, or lacks something."""


class QuantError(TorchportError):
    """Weights cannot be quantised, or a file of quantised weights cannot be read."""


class GraphFileError(TorchportError):
    """A file of a neuron graph cannot be read or written, or the graph in it cannot be right."""


class UsageError(TorchportError):
    """A command or function was asked for something it does not have."""


class NeuronError(TorchportError):
    """A graph of neurons cannot be changed, read or run."""


class CompileError(TorchportError):
    """A graph of torch.compile breaks a constraint, or cannot be looked into."""


class Stopped(KeyboardInterrupt):
    """Ctrl-C, with a line on what is there and how to go on. It is no TorchportError: nothing went wrong."""
