"""What calls of PyTorch operators do: operations, bytes, kind and shape, the same for captured and recorded ones."""
