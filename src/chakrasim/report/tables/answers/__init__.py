"""Tables of answers: why, what if, how long with failures."""
