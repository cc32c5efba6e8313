"""Subscriptions at work: which are there, and which of them joined tuples meet."""
