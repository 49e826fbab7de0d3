"""Formulas as a note writes them: read, worked out, compared with what is written."""
