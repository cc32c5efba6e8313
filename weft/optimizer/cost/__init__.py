"""What plans are weighed by: estimates, the cost model of the papers, and the prices of the host."""
