"""The engine's memory: laid out, filled, and run."""
