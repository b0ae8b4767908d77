"""The formats in which neuron graphs are exchanged with MARBLE; what goes in and out is a `Plain`."""
