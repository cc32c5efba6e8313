"""Measurements: named workloads through named systems, in one run, on one machine."""
