"""From queries to a topology."""
