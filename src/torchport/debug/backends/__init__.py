"""Backends of torch.compile that look at graphs before they run or compile them."""
