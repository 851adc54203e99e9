"""The longest path through a linked trace."""
