"""$description"""

import sys
from pathlib import Path

from torchport.cli import main

port = Path(__file__).resolve().parent / "port"
sys.exit(main(["check", str(port), "--no-explain", *sys.argv[1:]]))
