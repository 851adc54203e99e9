"""From linked traces, and other workloads, to Chakra traces."""
