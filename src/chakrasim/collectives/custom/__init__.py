"""Collectives that a file describes: MSCCL's XML, and Chakra traces."""
