"""The shapes of attention's tensors."""
