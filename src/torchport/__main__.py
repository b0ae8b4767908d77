"""`python -m torchport` is the `torchport` command."""

import sys

from torchport.cli import main

sys.exit(main())
