"""From a layout to a topology: steps, ways, assembly.

one query       trips, ways, steps, together, groups, matching
names for all   labels, relabel, selections, places
one topology    assemble, stores, unite, edges, flow, apart
"""
