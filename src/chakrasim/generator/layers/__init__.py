"""A transformer's layers: operations, bytes, parameters."""
