"""`python -m weft.cli` is the command line too."""

from weft.cli.entry import main

main()
