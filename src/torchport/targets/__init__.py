"""Targets: the places that a captured model can be made to run in, each in a folder of its own."""
