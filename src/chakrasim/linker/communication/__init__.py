"""Which collective or message a piece of work is, between whom, of what size."""
