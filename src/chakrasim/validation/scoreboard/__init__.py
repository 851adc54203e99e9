"""Measured collectives beside predictions: how far off they are, and how often an interval holds."""
