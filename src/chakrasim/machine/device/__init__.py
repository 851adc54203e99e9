"""Devices: peaks, memory, and how long an operation takes on them."""
