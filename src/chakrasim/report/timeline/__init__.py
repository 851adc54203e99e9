"""Results over time, for Perfetto and Chrome's viewer."""
