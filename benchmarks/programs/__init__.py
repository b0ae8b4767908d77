"""Random programs: nn.Modules that nobody would think of, ported by the hundred into one crate and proven."""
