"""Profiles of JAX and XLA (``*.xplane.pb``), read as device traces."""
