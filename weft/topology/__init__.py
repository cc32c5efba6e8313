"""Plans as plain data: stores, edges, probes, emits; how they print; what must hold of them."""
