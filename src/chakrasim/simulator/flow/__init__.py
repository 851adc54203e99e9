"""Flows that share links by max-min fairness: the network model ``flow``."""
