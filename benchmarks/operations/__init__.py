"""Every operation of candle's table, run over torch's own database of samples and over samples of our own.

`database` is torch's database; `own`, `corners` and `direct` are what it lacks; `capturing` makes graphs of calls,
`program` one Rust program of all rows, `checking` compares what it computes with torch, and `page` writes
docs/operations.md.
"""
