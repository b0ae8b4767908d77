"""The whole job: capture, convert, prepare, run, compare, explain, report."""
