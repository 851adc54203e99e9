"""Folders of traces: every rank linked, converted, numbered alike, and compared."""
