"""From queries to a topology.

The folders are the parts: graph, cost, trees, cubes, ranges, written, lower.  The modules beside them choose: wishes
of the user and what is known of the data make a problem; a problem has candidates, each with a bill.  Imports point
one way; `make check` verifies that.
"""
