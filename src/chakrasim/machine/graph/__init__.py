"""Networks as graphs of links: ranks, switches, and whatever forwards between them."""
