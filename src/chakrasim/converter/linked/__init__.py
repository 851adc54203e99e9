"""A linked trace of one rank to a Chakra trace."""
