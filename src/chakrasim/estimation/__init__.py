"""How long a training step takes, from a model's name and a machine's: generated, simulated, with an interval."""
