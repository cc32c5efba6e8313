"""Plans by ranges of an ordered value, for two streams."""
