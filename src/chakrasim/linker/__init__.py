"""Host and device traces into one linked trace."""
