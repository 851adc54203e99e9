"""A workload made into what the engine runs."""
