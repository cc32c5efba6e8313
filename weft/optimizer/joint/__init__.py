"""Plans of many queries chosen together: what they have in common is paid for once.

the problem             flows, network, shape, host, cubes
as the papers pose it   paper, orders
its solution            solve, search, state, program, highs, rounding, branch
from it to plans        together
"""
