"""A folder's files: what each is, and which belong together."""
