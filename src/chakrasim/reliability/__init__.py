"""How long a training job takes with failures: what is lost to checkpoints, restarts, repeated work, missing nodes."""
