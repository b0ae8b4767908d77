"""A port that is made once and then copied, so that each test can change its own."""

import shutil
from pathlib import Path

from torchport import Port


def copy_of(port: Port, folder: Path) -> Port:
    copy = Port.open(shutil.copytree(port.folder, folder / "port"))
    copy.model = port.model
    return copy
