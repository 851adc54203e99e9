"""Graphs and parts of results as pictures."""
