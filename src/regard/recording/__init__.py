"""What a watch records of a model, and what is read from it."""
