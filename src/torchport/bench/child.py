"""The process of one row: `python -m torchport.bench.child REQUEST FILE` writes the row to the file."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

from torchport.errors import TorchportError
from torchport.files import write_atomically


def main(text: str, file: Path) -> None:
    from torchport.bench.measuring import Request, measure
    from torchport.bench.results import Row

    request = Request.model_validate_json(text)
    row: Row | None = None
    try:
        for row in measure(request):
            write_atomically(file, row.model_dump_json())
    except Exception as error:
        traceback.print_exc()
        problem = str(error) if isinstance(error, TorchportError) else f"{type(error).__name__}: {error}"
        if row is not None:
            row = row.model_copy(update={"verdict_reason": problem})
        else:
            row = Row(model=request.model, backend=request.backend, status="failed", problem=problem)
        write_atomically(file, row.model_dump_json())


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
