"""One trace as a grammar that makes it and nothing else, with reasons for what nodes wait for."""
