"""Weights in blocks of few bits: the formats, bit for bit as ggml makes them, and the files that hold them."""
