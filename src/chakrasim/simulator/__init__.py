"""The engine: traces on machines, to the nanosecond."""
