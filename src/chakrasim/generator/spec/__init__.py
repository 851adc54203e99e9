"""What is to be generated: the specification, read and checked."""
