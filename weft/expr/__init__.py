"""Scalar expressions: typed trees over columns, their types, their evaluation on Arrow arrays."""
