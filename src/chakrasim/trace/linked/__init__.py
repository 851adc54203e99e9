"""Linked traces: host and device work of a rank in one table, and its file."""

from chakrasim.moved import moved_names

__getattr__ = moved_names(__name__)
