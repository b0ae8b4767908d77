"""Accelerators as backends of torch.compile: what each can run, and how it runs a graph."""
