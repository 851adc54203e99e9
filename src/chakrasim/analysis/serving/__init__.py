"""What traces of inference servers say, iteration by iteration."""
