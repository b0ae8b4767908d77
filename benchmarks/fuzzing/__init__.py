"""Files of neuron graphs, and ways to damage them."""
