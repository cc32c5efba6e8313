"""Groups: rows that are added up instead of kept.

on the way     travel, folding, fold, groups
on the owner   owner, known, view, shown
values         measures, extremes
other views    latest, ranked, versions
"""
