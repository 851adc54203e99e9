"""Chakra traces that nobody recorded: made from a description."""
