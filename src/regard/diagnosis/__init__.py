"""Diagnosis: the fault in somebody's own attention, by hypotheses that reproduce its numbers."""
