"""PyTorch's device traces (Kineto): columns and their reader."""
