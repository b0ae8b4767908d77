"""Benchmarks of models under the backends of torch.compile."""
