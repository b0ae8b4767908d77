"""A graph under load: threads infer while another changes it, and processes that change or save it are killed.

    python -m benchmarks.marble_load                            # 60 seconds, 50 kills of each kind
    python -m benchmarks.marble_load --seconds 5 --kills 5

Every result must be that of some version of the graph, bit for bit. After a kill, the file and its journal must give
the graph before the change or the one after it. Exits with 1 if one does not.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import torch
from torch import Tensor, nn

from torchport import marble
from torchport.targets.marble.core.version import Version

THREADS = 8


def small_model() -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    layers = (nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4))
    return nn.Sequential(*layers).eval(), torch.randn(1, 8)


def changed(core: marble.Core, chance: random.Random, nth: int) -> None:
    """One change, chosen by chance; what the graph refuses is not made."""
    sums = next(group for group in core.groups() if group.name == "0/linear")
    ways = [
        lambda: core.prune(fraction=chance.random() / 10),
        lambda: core.grow("0/linear", chance.randint(1, 3), seed=nth),
        lambda: core.split_neuron(chance.choice(list(sums.ids))),
        lambda: core.add_synapses(chance.randrange(8), chance.choice(list(sums.ids)), chance.gauss(0, 1)),
        lambda: core.remove_neurons([chance.choice(list(sums.ids))], cascade=True),
        lambda: core.undo(),
        lambda: core.undo(),
    ]
    with contextlib.suppress(marble.NeuronError):
        chance.choice(ways)()


def under_load(seconds: float) -> list[str]:
    """What went wrong while threads inferred and one changed the graph."""
    torch.set_num_threads(1)
    model, inputs = small_model()
    core = marble.convert_model(model, inputs)
    versions: list[Version] = [core.version]
    results: list[list[Tensor]] = [[] for _ in range(THREADS)]
    wrong: list[str] = []
    stop = threading.Event()

    def infer(nth: int) -> None:
        try:
            while not stop.is_set():
                found = core.run(inputs)[0]
                if not any(torch.equal(found, known) for known in results[nth][-3:]):
                    results[nth].append(found)
        except Exception as error:  # whatever a reader meets is a fault
            wrong.append(f"a reader met {type(error).__name__}: {error}")

    threads = [threading.Thread(target=infer, args=(nth,)) for nth in range(THREADS)]
    for thread in threads:
        thread.start()
    chance, began, changes = random.Random(0), time.monotonic(), 0
    while time.monotonic() - began < seconds and not wrong:
        changed(core, chance, changes)
        if core.version is not versions[-1]:
            versions.append(core.version)
        changes += 1
        if len(core.groups()) > 40:
            while core.version.number and len(core.groups()) > 6:
                core.undo()
                versions.append(core.version)
    stop.set()
    for thread in threads:
        thread.join()
    known = {tuple(_run(version, inputs).flatten().tolist()) for version in versions}
    strange = sum(tuple(found.flatten().tolist()) not in known for some in results for found in some)
    print(f"{changes} changes, {len(versions)} versions, {sum(map(len, results))} results of {THREADS} threads, "
          f"{len(known)} different, {strange} of no version")  # fmt: skip
    return wrong + ([f"{strange} results are of no version"] if strange else [])


def _run(version: Version, inputs: Tensor) -> Tensor:
    return marble.Core(version.graph, version.arrays).run(inputs)[0]


# Kills

_CHANGING = """
import sys
from torchport import marble
core = marble.load(sys.argv[1], journal=True)
print("ready", flush=True)
nth = 0
while True:
    nth += 1
    core.add_neuron_group(50, name=f"more{nth}", bias=[float(nth)] * 50)
"""
_SAVING = """
import sys
from torchport import marble
core = marble.load(sys.argv[1])
print("ready", flush=True)
nth = 0
while True:
    nth += 1
    core.add_neuron_group(20000, name=f"more{nth}", bias=[float(nth)] * 20000)
    marble.save(core, sys.argv[1])
"""


def killed(code: str, kills: int) -> list[str]:
    """What was wrong with the file after each of some processes was killed at work."""
    wrong, chance = [], random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "graph.marble"
        marble.save(marble.convert_model(*small_model()), file)
        most = 0
        for _ in range(kills):
            with subprocess.Popen(
                [sys.executable, "-c", code, str(file)], stdout=subprocess.PIPE, text=True
            ) as process:
                assert process.stdout is not None
                if process.stdout.readline() != "ready\n":
                    return [*wrong, "the file could not be loaded after a kill"]
                time.sleep(chance.random() / 5)
                process.send_signal(signal.SIGKILL)
            core = marble.load(file)
            most = max(most, core.version.number)
            wrong += _unsound(core)
            marble.save(marble.convert_model(*small_model()), file)
    print(f"{kills} kills, up to {most} changes before one")
    return wrong


def _unsound(core: marble.Core) -> list[str]:
    """The groups that were added must be the first ones, whole, each with its own number as bias."""
    more = [group for group in core.groups() if group.name.startswith("more")]
    names = [f"more{nth + 1}" for nth in range(len(more))]
    if [group.name for group in more] != names:
        return [f"the file has {[group.name for group in more]}"]
    biases = [core.neurons[group.ids[-1]].bias for group in more]
    return [] if biases == [float(nth + 1) for nth in range(len(more))] else [f"the biases are {biases}"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--kills", type=int, default=50)
    given = parser.parse_args()
    wrong = under_load(given.seconds)
    for code in (_CHANGING, _SAVING):
        wrong += killed(code, given.kills)
    for line in wrong:
        print(f"wrong: {line}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
