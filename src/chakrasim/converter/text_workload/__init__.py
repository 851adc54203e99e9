"""ASTRA-sim's text workloads to Chakra traces."""
