"""The Python that Spark starts its processes with.

Spark puts a zip of PySpark before the installed PySpark on the path.  A zip has no compiled files, so every process
would spend half a second compiling.  So Spark gets a small script instead, which removes zips from the path and then
runs this Python.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import sys

from weft.launch.java import cache_folder, write_script


def worker_python() -> str:
    """A program that runs this Python without Spark's zips; this Python itself if no script can be written."""
    script = (
        "#!/bin/sh\n"
        "# Written by Weft.  PySpark is installed, so its uncompiled copy in a zip is not needed.\n"
        "set -f; kept=; IFS=:\n"
        'for entry in $PYTHONPATH; do case $entry in *.zip) ;; *) kept="${kept:+$kept:}$entry" ;; esac; done\n'
        'unset IFS; export PYTHONPATH="$kept"\n'
        f'exec {shlex.quote(sys.executable)} "$@"\n'
    )
    program = cache_folder(os.environ) / f"python-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
    try:
        write_script(program, script)
    except OSError:
        return sys.executable
    return str(program)
