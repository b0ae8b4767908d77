"""Checkpoints: read without running code, mapped to the names that a port loads, and extracted in a stream."""
