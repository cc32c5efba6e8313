"""Where rows come from: files, tables, samples of both.

what a source is   source, feeds, sampling
files              folders, files, filelog, remote, refreshed, unreadable, partitions
rows in memory     tables, parameters
topics             the folder kafka
"""
