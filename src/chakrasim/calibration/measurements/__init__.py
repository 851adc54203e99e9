"""Measured collectives: curves of time over size, and what is known of the machines that they were measured on."""
