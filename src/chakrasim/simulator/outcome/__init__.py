"""What a simulation gives: figures out of the arena, and their forms."""
