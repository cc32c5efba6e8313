"""Scalar expressions: typed trees over columns, their types, their evaluation on Arrow arrays.

what they are      model, types, functions, typing, coerce
types of results   rules, timerules, arguments
what they give     evaluate, spread, apart
as text            render
what follows       factor, implied, safe, spelling
kernels            logic, numeric, casts, casttext, strings, text, regex, jsontext, lists, nested, gathered
kernels of times   dates, temporal, timetext, buckets
"""
