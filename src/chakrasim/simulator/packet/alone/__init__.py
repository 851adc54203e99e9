"""Packets of flows alone, without a workload."""
