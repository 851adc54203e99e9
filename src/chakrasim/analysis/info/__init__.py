"""What a file holds, in short."""
