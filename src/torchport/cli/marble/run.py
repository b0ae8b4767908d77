"""`torchport marble run`: what a graph computes."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from torchport.cli import options
from torchport.cli.marble import shared
from torchport.cli.output import print_json
from torchport.cli.progress import Progress

if TYPE_CHECKING:
    from torch import Tensor


def run(
    file: shared.File,
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--input", metavar="FILE|SHAPE", help="A .npy, .pt or .safetensors file, or a shape such as 2x16."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where outputs go: .npy, .pt or .safetensors.")
    ] = None,
    by: shared.By = "groups",
    steps: Annotated[
        int, typer.Option(min=1, metavar="N", help="How often it is run on the same inputs.")
    ] = 1,
    stateful: Annotated[
        bool,
        typer.Option("--stateful", help="Memories go on from the file, and what they hold goes back to it."),
    ] = False,
    seed: Annotated[int, typer.Option(metavar="N", help="Of random inputs.")] = 0,
    verbose: shared.Verbose = False,
    as_json: options.Json = False,
) -> int:
    """Run a graph on inputs from files, or on random ones of a shape."""
    with shared.logged(verbose), Progress() as progress:
        from torchport import marble
        from torchport.targets.marble.run_values import inputs_from, must_be_writable_as, write_outputs
        from torchport.targets.marble.running import steps_of
        from torchport.targets.marble.ways import WAYS

        shared.one_of(by, WAYS, "--by")
        core = marble.load(file)
        if output is not None:
            must_be_writable_as(output, len(core.graph.outputs))
        inputs = inputs_from(core, given or [], seed)
        if not stateful:
            core.reset()
        progress.say(f"running {file} by {by}")
        began = time.perf_counter()
        outputs = steps_of(core, inputs, steps, by=by)  # type: ignore[arg-type]
        seconds = time.perf_counter() - began
        if output is not None:
            write_outputs(output, outputs)
        if stateful:
            marble.save(core, file)
    facts = [_facts(value) for value in outputs]
    if as_json:
        print_json(
            {
                "status": "pass",
                "outputs": facts,
                "by": by,
                "steps": steps,
                "seconds": seconds,
                "notes": core.notes,
                "file": None if output is None else str(output),
            }
        )
        return 0
    for index, one in enumerate(facts):
        typer.echo(f"output {index}: {one['dtype']} {one['shape']}  {one['values']}")
    shared.print_notes(core.notes)
    if output is not None:
        typer.echo(f"wrote {output}")
    return 0


_SHOWN = 6


def _facts(value: "Tensor") -> dict[str, Any]:
    """The form of an output, and its first numbers."""
    first = value.reshape(-1)[:_SHOWN].tolist()
    more = " …" if value.numel() > _SHOWN else ""
    shown = ", ".join(f"{one:.6g}" if isinstance(one, float) else str(one) for one in first)
    return {
        "shape": list(value.shape),
        "dtype": str(value.dtype).removeprefix("torch."),
        "values": f"{shown}{more}",
    }
