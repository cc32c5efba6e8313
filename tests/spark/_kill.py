"""Kills a job from outside and looks at what it leaves behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType

import psutil
import pyarrow.parquet as pq

from tests.spark._kit import QUERIES, STREAMS, expected, found, listing, make_input
from weft.host.results.part import Part

HERE = Path(__file__).resolve().parents[2]


class Job:
    """One process of the job, in a process group of its own, and everything it starts."""

    def __init__(
        self,
        root: Path,
        workers: int = 2,
        crash: tuple[str, int] | None = None,
        plans: str = "flat",
        changes: int = 0,
        module: str = "tests.spark._job",
    ) -> None:
        self.root, self.mark, self.log = root, root / "mark", root / "log"
        self.mark.unlink(missing_ok=True)
        self.began = time.time()
        self.seen: dict[str, dict[str, int]] = {}
        arguments = [str(root), str(workers), plans, str(changes)]
        arguments += [*((crash[0], str(crash[1]), str(self.mark)) if crash else ())]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                cwd=HERE, env={**os.environ, "PYTHONPATH": str(HERE)}, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self.process.poll() is None:
            self.kill()

    def until(self, done: Callable[[], bool], seconds: float = 120) -> bool:
        """Wait for something while watching the result folders; False if the job ended or time is up."""
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            self.watch()
            if done():
                return True
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=0.02)
                return False
        return False

    def watch(self) -> None:
        """A published file never changes, and goes away only when it was merged with others."""
        for query in QUERIES:
            folder = self.root / "out" / query
            if folder.exists():
                files = listing(folder)
                before = self.seen.get(query, {})
                gone = {name: what for name, what in before.items() if files.get(name) != what}
                assert all(is_merged(name, files) for name in gone), f"{query}: {before} became {files}"
                self.seen[query] = files

    def marked(self) -> bool:
        """Whether the job hangs at its crash point."""
        return self.mark.exists()

    def working(self) -> bool:
        """Whether the job has begun to look for input."""
        places = [self.root / "checkpoint" / part for part in ("sources", "spark", "spark/offsets")]
        files = [path for place in places if place.exists() for path in place.iterdir()]
        return any(path.stat().st_mtime > self.began for path in files if path.exists())

    def kill(self, *, only_driver: bool = False) -> None:
        """kill -9 the whole group, or the Python driver alone; wait until nothing of it is left."""
        family = [psutil.Process(self.process.pid)]
        family += family[0].children(recursive=True)
        if only_driver:
            os.kill(self.process.pid, signal.SIGKILL)
        else:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if not only_driver:
            orphans = survivors(family)
            assert not orphans, f"still alive: {orphans}"

    def finish(self, seconds: float = 300) -> int:
        """Let the job run to its end; its exit code."""
        family = [psutil.Process(self.process.pid)]
        family += family[0].children(recursive=True)
        self.until(lambda: False, seconds)
        code = self.process.wait(timeout=1)
        orphans = survivors(family)
        assert not orphans, f"still alive: {orphans}"
        return code


def survivors(family: Sequence[psutil.Process], seconds: float = 30) -> list[psutil.Process]:
    """Those that are still alive after a while; they are killed."""
    _, alive = psutil.wait_procs(family, timeout=seconds)
    for process in alive:
        process.kill()
    return list(alive)


def is_merged(name: str, files: Iterable[str]) -> bool:
    """Whether a file that is gone was merged into one that is there."""
    old, merged = Part.of(name), [part for file in files if (part := Part.of(file)) and part.level]
    return old is not None and any(part.first <= old.first and old.last <= part.last for part in merged)


def check_prefix(root: Path) -> None:
    """The result folders hold whole batches in order, only the last may be half published; nothing is there twice."""
    paths = (root / "checkpoint" / "manifests").glob("*.json")
    manifests = {int(p.stem): json.loads(p.read_text().splitlines()[0]) for p in paths}
    last = max(manifests, default=-1)
    for query in QUERIES:
        folder = root / "out" / query
        if not folder.exists():
            continue
        files = set(listing(folder)) - {"empty.parquet"}
        assert all(int(name.split("-")[0]) <= last for name in files), f"{query} shows a batch that was not committed"
        for name in files:
            pq.read_table(folder / name)
        for batch, manifest in manifests.items():
            if manifest.get("migrated"):  # names what the migration made; the files of its batch were in the one before
                continue
            wanted = {Path(f["file"]).name for f in manifest["files"] if f["query"] == query}
            here = {name for name in files if (part := Part.of(name)) and part.last == batch and not part.level}
            assert here <= wanted, f"{query} shows files of batch {batch} that were not committed"
            missing = wanted - here
            whole = all(is_merged(name, files) for name in missing)
            assert whole or batch == last, f"{query} lacks files of batch {batch}"
    wanted_answer = expected(root)
    for query, rows in found(root).items():
        assert rows <= wanted_answer[query], f"{query} shows a result too often, or a wrong one"


def committed(root: Path) -> int:
    """The newest committed batch."""
    return max((int(p.stem) for p in (root / "checkpoint" / "manifests").glob("*.json")), default=-1)


def known_batches(root: Path) -> int:
    """How many batches the input is good for."""
    return len(list((root / "in" / STREAMS[0]).glob("*.parquet")))


def grow(root: Path, seed: int, ahead: int) -> None:
    """Let more input arrive, so that this many batches are still to be done."""
    have = known_batches(root)
    need = committed(root) + 1 + ahead - have
    if need > 0:
        make_input(root, need, seed, first=have)


def complete(root: Path, workers: int = 2, plans: str = "flat") -> None:
    """Run the job to its end and compare everything with the oracle."""
    with Job(root, workers, plans=plans) as job:
        code = job.finish()
    assert code == 0, (root / "log").read_text()
    check_prefix(root)
    assert found(root) == expected(root)
    assert not any((root / "checkpoint" / "results").iterdir()), "staged results stay behind"
    hidden = [p.name for query in QUERIES for p in (root / "out" / query).glob(".*")]
    assert not hidden, f"half-published files stay behind: {hidden}"
