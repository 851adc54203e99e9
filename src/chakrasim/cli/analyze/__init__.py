"""`chakrasim analyze`: one thin module an analysis."""
