"""Graphs of networks as files: ours, and those of other programs."""
