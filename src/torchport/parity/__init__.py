"""Comparing what a port computed with what the original computed; knows traces, and no target."""
