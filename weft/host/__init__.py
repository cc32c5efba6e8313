"""Runs a topology: wave 0 reads input, later waves store and probe, and a manifest commits the batch.

The folders are the parts: sources, state, results, groups, subscriptions, migration, and the two hosts, inprocess and
spark.  The modules are what both hosts do in a batch:

    a batch             batch, envelope, work, run, crash
    wave 0              ingest, ops, upserts, parts, idle, watch
    later waves         worker, routing, arrived, portions, lookup, limits
    beside the values   hidden, weights, marks, narrow
    where things are    homes, url
"""
