"""A shipped training step, simulated on several machines."""
