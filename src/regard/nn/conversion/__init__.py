"""Weights carried over, both ways: torch's own layer, and the layouts of transformers."""
