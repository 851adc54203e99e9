"""PyTorch's host traces: columns and their reader."""
