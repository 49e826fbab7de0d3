"""Diagnosis: the fault in somebody's own attention code, by hypotheses that reproduce its numbers."""
