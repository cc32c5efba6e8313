"""The command line: `weft init | demo | run | explain | queries | status | console | doctor | calibrate | bench | ...`.

A module for each command, and:

    command     what a command is: a typed function, its options, its help page
    commands    all of them
    entry       runs one; exit codes
    terminal    what may be written to a terminal, a pipe or a file
    completion  what a shell needs to complete a command
"""

from weft.cli.entry import main

__all__ = ["main"]
