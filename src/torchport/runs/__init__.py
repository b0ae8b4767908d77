"""Runs: the folder that a port or a comparison leaves behind, and the report in it."""
