"""Jobs: one trace for many ranks, groups as roles, and its file."""
