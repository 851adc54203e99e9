"""Machines and graphs of links as networks of packets."""
