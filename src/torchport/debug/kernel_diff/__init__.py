"""KernelDiff: what a backend of torch.compile computes at every node, against eager PyTorch and float64."""
