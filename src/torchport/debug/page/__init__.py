"""The page of debugging runs."""
