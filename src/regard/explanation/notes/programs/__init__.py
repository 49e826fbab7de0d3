"""A note's programs, followed by reading them: what they make and what they print."""
