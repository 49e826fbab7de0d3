"""One file an engine; they do not know each other."""
