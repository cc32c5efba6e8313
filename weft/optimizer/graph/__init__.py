"""What is joined with what: the join graph, trees over it, layouts, where rows may lie, what an index can do."""
