"""Amounts as people read them, and plain tables."""
