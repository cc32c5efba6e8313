"""From queries to a topology.

The folders are the parts: graph, cost, trees, cubes, ranges, written, lower, and joint for many queries together.  The
modules beside them choose: `wishes` of the user and what is `known` of the data make a `problem`; a problem has
candidates (`candidate`, `candidate_trees`, `candidate_views`, `candidate_cubes`), each with a `bill`; `choose` takes
one.  Over all queries, `plan` makes the topology, `whole` says what it costs, `uniting` which selections share a store,
and `cure` which scheme would even out a load.  Imports point one way; `make check` verifies that.
"""
