"""Plans as people write them and checkpoints remember them."""
