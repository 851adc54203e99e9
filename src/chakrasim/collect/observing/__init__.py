"""Programs observed while they run."""
