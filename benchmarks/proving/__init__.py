"""Many models ported and proven as a user would, each in a process of its own: one may hang or run out of memory."""
