"""From queries to a topology.

The folders are the parts: graph, cost, trees, cubes, ranges, written, lower.  The modules beside them choose: what is
wished and what is known make a problem, which has candidates, each with a bill.  Imports point one way, which
`make check` sees to.
"""
