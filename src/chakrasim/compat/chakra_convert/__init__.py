"""Chakra's converter, fault for fault."""
