"""Groups: rows that are added up instead of kept."""
