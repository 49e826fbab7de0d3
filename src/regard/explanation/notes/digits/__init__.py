"""Numbers that a note works out one after another, and what a reader would work out next."""
