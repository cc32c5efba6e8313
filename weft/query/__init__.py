"""What a query is: streams, relations, windows, predicates; frozen and checked on construction."""
