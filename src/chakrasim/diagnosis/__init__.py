"""What a folder of PyTorch traces holds, and whether it can be trusted."""
