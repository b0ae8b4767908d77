"""Candidates that run in PyTorch itself: another module, a compiled one, a function. Both sides are watched by
hooks, leave traces, and are compared by `parity` as any port is."""
