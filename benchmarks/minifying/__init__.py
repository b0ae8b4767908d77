"""Graphs with a fault planted in the backend that runs them, for the benchmark and the tests of the minifier."""
