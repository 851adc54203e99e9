"""The model of collectives fitted to measurements, and how far off it is on what was held out."""
