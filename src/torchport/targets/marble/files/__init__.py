"""Neuron graphs on disk."""
