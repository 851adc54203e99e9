"""JSON of many records, read into columns by compiled code."""
