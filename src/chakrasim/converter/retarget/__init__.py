"""Recorded or captured jobs made into jobs of another size."""
