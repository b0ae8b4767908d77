"""`torchport diff`: two sets of tensors compared by name, whatever kind of file they are in."""
