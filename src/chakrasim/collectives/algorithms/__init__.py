"""One file for each algorithm of a collective."""
