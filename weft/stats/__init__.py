"""What is known about the data: sizes, rates, selectivities, distinct counts."""
