"""Weights in blocks of few bits: formats, what they cost in drift, and a plan of formats for a budget."""
