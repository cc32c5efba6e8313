"""Plans by cubes: workers as cells of a grid, and skew of keys."""
