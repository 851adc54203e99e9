"""Chakra traces: the graph, its builder, protobuf and JSON in and out."""
