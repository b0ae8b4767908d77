"""The generators of random numbers that a whole process shares: torch's, Python's and numpy's."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def random_numbers_kept(*models: torch.nn.Module) -> Iterator[None]:
    """Afterwards the generators are as they were before, torch's on the devices of the models, too."""
    pythons, numpys = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[device.index for device in _devices(*models)]):
            yield
    finally:
        random.setstate(pythons)
        np.random.set_state(numpys)


def global_random_state(model: torch.nn.Module) -> list[bytes]:
    """What changes if one of the generators is used, torch's on the devices of a model, too."""
    states = [torch.get_rng_state(), *(torch.cuda.get_rng_state(device) for device in _devices(model))]
    others = pickle.dumps((random.getstate(), np.random.get_state()))
    return [*(state.numpy().tobytes() for state in states), others]


def _devices(*models: torch.nn.Module) -> set[torch.device]:
    if not torch.cuda.is_available():
        return set()
    return {tensor.device for model in models for tensor in model.parameters() if tensor.is_cuda}
