"""Attention, weights, plan and the engines."""
