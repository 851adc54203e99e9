"""Figures of a run on a network of packets: of its ports, its flows, its pauses, and of the monitor's samples."""
