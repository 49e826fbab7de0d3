"""The catalogue's entries, one TOML file a room."""
