"""A neuron graph that is alive: it runs, is looked at neuron by neuron, and is changed while it runs."""
