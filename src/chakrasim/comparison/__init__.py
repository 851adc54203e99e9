"""Two runs, before and after: the causes of the difference in order."""
