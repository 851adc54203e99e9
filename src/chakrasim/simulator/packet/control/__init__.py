"""Congestion control: one file each, registered in `table.py`."""
