"""Debugging torch.compile and accelerators: every graph, every constraint, the kernel that is wrong."""
