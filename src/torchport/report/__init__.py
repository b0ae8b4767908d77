"""One model of a report, and its renderers."""
