"""Chakra's trace linker, fault for fault."""
