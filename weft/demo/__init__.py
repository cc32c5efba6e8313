"""The product in one minute: generated streams, three continuous joins, and a check of every row.

`data` makes the streams, `queries` holds each join beside the statement that defines its answer, `check`
compares the two, `show` is the run you see.
"""

from weft.demo.show import run_demo

__all__ = ["run_demo"]
