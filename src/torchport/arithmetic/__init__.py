"""Classes of arithmetic: what a sum or a product costs, emulated with torch."""
