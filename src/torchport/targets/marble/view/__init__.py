"""A neuron graph as one HTML page: layers, groups, neurons, synapses and weights, to look at in a browser."""

from torchport.targets.marble.view.page import write_view

__all__ = ["write_view"]
