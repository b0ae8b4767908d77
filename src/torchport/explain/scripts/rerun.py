"""Runs $layer alone and compares each of its operations with PyTorch.

$edit
The values that come from the layers inside it are the recorded ones.
"""

import sys
from pathlib import Path

from torchport.cli import main

port = Path(__file__).resolve().parent / "port"
sys.exit(main(["check", str(port), "--no-explain", *sys.argv[1:]]))
