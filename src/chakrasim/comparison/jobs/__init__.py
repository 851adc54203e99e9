"""Two jobs, or two sets of jobs, such as synthetic ones and those that they stand for: how alike they are."""
