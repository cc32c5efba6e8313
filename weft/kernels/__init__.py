"""Compiled kernels: arrays in, arrays out.  They know nothing of queries, Spark or files.

values as numbers      codes, numbers, cells
equality and ranges    index, runs
several dimensions     boxes, bitsets, narrowing, lanes
groups, counts, sums   grouping, least, checksum
"""
