"""ASTRA-sim's log, written and read."""
