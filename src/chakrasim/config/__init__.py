"""Configuration files: YAML and JSON read with the place of every value."""
