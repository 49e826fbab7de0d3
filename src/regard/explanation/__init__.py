"""Explanations: attention from the formula to numbers to code, with the reader's own vectors.

``sheet`` computes named tables by the definition, ``attention`` and ``story`` lay them out in
steps, ``trace`` is what comes back, and ``faces`` show it.  Nothing here needs more than NumPy.
"""
