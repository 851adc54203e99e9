"""What analyses are made of: traces opened, intervals, nesting, classes of kernels, results as columns."""
