"""The compiled loops of routing, and the tables that they go over."""
