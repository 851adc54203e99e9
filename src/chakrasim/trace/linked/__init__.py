"""Linked traces: host and device work of a rank in one table, and its file."""
