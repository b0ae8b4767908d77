"""The terminal dashboard: a finished run, or a port while it is made. It needs the `tui` extra."""

from importlib.util import find_spec

from torchport.errors import UsageError


def require() -> None:
    """Raises an error if textual, which draws the dashboard, is not installed."""
    if find_spec("textual") is None:
        message = "the dashboard needs textual, which is not installed"
        raise UsageError("TP0803", message, fix="Run `pip install 'torchport[tui]'`.")
