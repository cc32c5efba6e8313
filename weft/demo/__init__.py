"""Weft in one minute: generated streams, three continuous joins, and a check of every row.

`data` makes the streams, `queries` holds each join beside the statement that defines its answer, `check`
compares the two, `show` runs everything and prints it.
"""

from weft.demo.show import run_demo

__all__ = ["run_demo"]
