"""Claims in words, and what is so."""
