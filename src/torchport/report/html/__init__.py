"""A run as one HTML file that needs nothing else: no network, no other file."""

from torchport.report.html.page import render

__all__ = ["render"]
