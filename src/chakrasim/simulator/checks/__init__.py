"""What is told before or beside a run: what cannot end, what the network leaves out."""
