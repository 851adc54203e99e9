"""What a captured program does, recorded as nodes of a graph."""
