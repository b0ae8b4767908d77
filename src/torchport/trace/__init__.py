"""Traces: files of the values that a run computed, their keys, and the plan of calls that they belong to."""
