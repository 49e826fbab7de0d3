"""Tables, drawn with bars or written as lists: what their rows and columns have in common."""
