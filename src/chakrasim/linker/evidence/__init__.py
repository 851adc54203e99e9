"""What records prove of dependencies, and what has to be inferred."""
