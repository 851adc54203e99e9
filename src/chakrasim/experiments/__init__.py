"""Published experiments, run again: machines, figures and examples of others, each by its name."""
