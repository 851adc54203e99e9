"""The one opener of inputs, the one writer of outputs, and what their first bytes say they are."""
