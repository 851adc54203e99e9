"""Level population: a model of many jobs, with differential privacy for each of them."""
