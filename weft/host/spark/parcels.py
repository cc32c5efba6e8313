"""Large payloads on one machine: they lie in files, and Spark carries only their places.

    task that sends:    payload  -->  file of this attempt;  its row holds name, begin and size instead
    task that receives:      row  -->  the same bytes, mapped into memory

A payload that passes through Spark is copied eight times: into the JVM, through its rows and its shuffle, and out
again.  On several machines there is no folder that all tasks see, and payloads travel in the rows as before.

What must hold: a file belongs to one attempt of one task, and nothing in it is ever changed.  A payload is in the file
before Spark gets its row, and Spark hands on the rows of attempts that came to their end.  So a task that runs twice
changes nothing.  The folder belongs to one job and goes with it, however it ends: it is renamed first, so that a task
that outlives a failed job makes no file in it any more.  What a killed program leaves lies in Spark's own folder, which
Spark removes when it ends.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import struct
import tempfile
import uuid
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Self

import pyarrow as pa
from pyspark import SparkContext, SparkFiles

from weft.host.envelope import Envelope, pack, write
from weft.host.spark.homing import is_one_machine

LEAST = 65_536
"""Tuples of fewer bytes travel in their rows."""
ALIGNED = 64
"""Payloads begin at multiples of this, as Arrow wants its buffers."""
MARK = b"\0weft"
"""How a place begins: neither tuples nor a report begin so."""
_PLACE = struct.Struct(f"{len(MARK)}sqq")


class Parcels:
    """Makes the folders of jobs."""

    def __init__(self, context: SparkContext) -> None:
        self._is_local = is_one_machine(context.master)

    @cached_property
    def _root(self) -> str:
        """Spark's own folder.  It is asked for in a batch: there it is known what to say if the JVM is gone."""
        return SparkFiles.getRootDirectory()

    @contextlib.contextmanager
    def folder(self) -> Iterator[str | None]:
        """A folder for the payloads of one job; None if its tasks may run on several machines."""
        if not self._is_local:
            yield None
            return
        made = tempfile.mkdtemp(prefix="weft-", dir=self._root)
        try:
            yield made
        finally:
            gone = f"{made}-gone"
            with contextlib.suppress(OSError):  # where Spark has ended, its folders have gone with it
                os.rename(made, gone)
                shutil.rmtree(gone, ignore_errors=True)


class Outbox:
    """The payloads that one attempt of a task sends."""

    def __init__(self, folder: str | None) -> None:
        self._path = None if folder is None else Path(folder, uuid.uuid4().hex)
        self._file: pa.OSFile | None = None

    def put(self, envelope: Envelope) -> pa.Buffer:
        """What Spark carries: a place if the payload is large, and the payload itself if not."""
        frame = envelope.frame
        if self._path is None or frame is None or frame.nbytes < LEAST:
            return pack(envelope)
        if self._file is None:
            self._file = pa.OSFile(str(self._path), "wb")
        begin = self._file.tell()
        write(frame, self._file)
        size = self._file.tell() - begin
        self._file.write(bytes(-size % ALIGNED))
        return pa.py_buffer(_PLACE.pack(MARK, begin, size) + bytes(self._path))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()


class Inbox:
    """The payloads that came to one task; they stay in memory as long as something of them is used."""

    def __init__(self) -> None:
        self._files: dict[bytes, pa.MemoryMappedFile] = {}

    def get(self, carried: pa.Buffer) -> pa.Buffer:
        """The payload of a row; it is not copied."""
        if carried.slice(0, len(MARK)) != MARK:
            return carried
        told = carried.to_pybytes()
        _, begin, size = _PLACE.unpack_from(told)
        path = told[_PLACE.size :]
        if path not in self._files:
            self._files[path] = pa.memory_map(path.decode())
        file = self._files[path]
        file.seek(begin)
        return file.read_buffer(size)
