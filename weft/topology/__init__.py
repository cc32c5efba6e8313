"""Plans as plain data: stores, edges, probes, emits; how they print; what must hold of them.

the plan           model, node, store, spread, label, clock
aggregates         measures
subscriptions      matching, dimensions
checked, written   check, plain
"""
