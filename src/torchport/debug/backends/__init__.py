"""Backends of torch.compile that look at what they are given."""
