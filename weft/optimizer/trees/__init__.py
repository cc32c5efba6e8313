"""Plans by trees: which joins to keep, and in which order tuples meet stores."""
