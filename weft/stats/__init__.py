"""What is known about the data: sizes, rates, selectivities, distinct counts.

statistics     model, given, names, keys
from samples   analyze, wanted, sample, side, held, values, pairs, windows, estimators, subscribed
from runs      drawn, sketch, distinct, heavy, least
"""
