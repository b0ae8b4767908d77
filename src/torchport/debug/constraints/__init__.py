"""Rules that graphs are held against, and those that come with torchport."""
