"""What a query is: streams, relations, windows, predicates; frozen and checked on construction.

From a draft (a query as written) to a `Query` (all names and types known).  `resolve` is the way in, and `rewrite`
names the steps that make inner joins, unions and groups of everything else.

    what a query is     model, draft, parameters, grouping, changes
    written in Python   builder, duration
    names and types     resolve, clauses, scope, sources, visible, names, views, qualify, opened, inline, calls
                        reused, connectivity
    joins               rewrite, outer, simplify, nulls, asof, waiting, withins, lateral, foreach, elements, onerow
    subqueries          subqueries, tied, groupedsub, lifted, values, onlyrow, regroup
    groups              groups, aggregates, gathering, sets, windowing, closing, unfold
    numbers of rows     ranking, overcall, overs, ordered
    rows that change    whole, settled, versions, upserts, tables, bags, derived
    times               timebounds, moment
    subscriptions       subscribe
    errors              elsewhere
"""
