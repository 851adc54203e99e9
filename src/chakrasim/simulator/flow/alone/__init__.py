"""Flows without a workload: for the study of a fabric."""
