"""Ranks of one job compared: meetings, clocks, agreement."""
