"""Published training steps: rows of a table, predicted from their descriptions, and compared."""
