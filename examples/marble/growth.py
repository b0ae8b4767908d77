"""A graph that grows while other threads run it.

    python examples/marble/growth.py

Each run works on one version of the graph, which never changes. A change makes the next version and then puts it in the
place of the old one. Growth gives new neurons outgoing synapses of weight 0, so that no output changes.
"""

from __future__ import annotations

import threading

import torch
from torch import nn

from torchport import marble

THREADS, ROUNDS = 4, 6


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)).eval()
    x = torch.randn(3, 8)
    core = marble.convert_model(model, x)
    expected = core.run(x)[0]
    runs, worst, failures = [0] * THREADS, [0.0] * THREADS, []
    done = threading.Event()

    def infer(place: int) -> None:
        try:
            while not done.is_set() or not runs[place]:
                error = (core.run(x)[0] - expected).abs().max()
                worst[place] = max(worst[place], float(error))
                runs[place] += 1
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=infer, args=(place,)) for place in range(THREADS)]
    for thread in threads:
        thread.start()
    sizes = [len(core.neurons)]
    try:
        for round_ in range(ROUNDS):
            core.grow("0/linear", 2, seed=round_)
            sizes.append(len(core.neurons))
        core.split_neuron(core.neurons.of_layer("0")[0][0])
        sizes.append(len(core.neurons))
    finally:
        done.set()
        for thread in threads:
            thread.join()

    print(f"neurons after each change: {', '.join(map(str, sizes))}")
    print(f"{sum(runs)} runs in {THREADS} threads meanwhile, {len(failures)} failures")
    print(f"largest change of an output: {max(worst):.1e}")
    assert not failures, failures
    assert sizes == sorted(set(sizes)) and all(runs)
    assert max(worst) < 1e-5

    core.undo()
    assert len(core.neurons) == sizes[-2]
    print(f"the last change undone: {len(core.neurons)} neurons")


if __name__ == "__main__":
    main()
