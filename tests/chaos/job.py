"""The job of a story: `python -m tests.chaos.job ROOT LIFE SERVERS POINT`; the last two may be empty.

The story is in the folder.  The job runs until the file `finish` is there, then reads all that is there and ends with
0.  A run that fails is started again in the same process, as a careful program would; if the JVM is gone, it is now and
then the program that ends, with 3, and is started anew.  What failed is written down, a line each.
"""

from __future__ import annotations

import faulthandler
import json
import os
import pickle
import random
import signal
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import weft
from tests.chaos.rows import COLUMNS, LATENESS, schema_of
from tests.chaos.sinks import attach, out, remote, topic_of
from tests.chaos.story import ROWS, STRATEGIES, Input, Story
from weft.host.crash import CrashPoint

EXTRA, LAST = "extra", "last"
"""The query that comes and goes, and the same query in the end."""
JVM_GONE = 3


def declare(session: weft.Session, given: Input, source: object) -> None:
    """A stream or a table of a story."""
    how: dict[str, Any] = {} if given.is_table else {"bad_files": given.bad}
    if given.is_timed:
        how |= {"event_time": "ts", "lateness": 4 * LATENESS if given.kind == "topic" else LATENESS}
    if given.way == "changes":
        how["changes"] = "op"
    if given.way in ("upserts", "versions"):
        how["key"] = "id"
    if given.way == "versions":
        how |= {"event_time": "ts", "lateness": LATENESS}
    (session.table if given.is_table else session.stream)(given.name, source, **how)


@dataclass
class Life:
    """One process of the job."""

    story: Story
    root: Path
    servers: str | None
    number: int
    point: str | None
    spark: Any = None

    def __post_init__(self) -> None:
        self.dice = random.Random(f"life {self.story.seed} {self.number}")
        self.added = 0
        self.is_changing = self.story.extra is not None
        self.workers = self.dice.choice((1, 2, 3)) if self.is_changing else 2
        drawn = {query: self.dice.choice(STRATEGIES) for query in self.story.queries}
        self.plans = {q.name: how if self.is_changing and q.is_free else None for q, how in drawn.items()}

    # ------------------------------------------------------------------------------------------ the session

    def session(self) -> weft.Session:
        """The session of the story, on its checkpoint."""
        place = remote(self.root, "state") or self.root / "disk" / "state"
        made = weft.Session(place, workers=self.workers, spark=self.spark)
        made.options(statistics=weft.Statistics(rows={given.name: 1000.0 for given in self.story.inputs}))
        for given in self.story.inputs:
            declare(made, given, self._source(given))
        for asked in self.story.queries:
            attach(made.query(asked.name, asked.sql, strategy=self.plans[asked.name]), asked, self.root, self.servers)
        if EXTRA in made.checkpoint.queries():
            made.drop(EXTRA)
        return made

    def _source(self, given: Input) -> object:
        folder, schema = self.root / "in" / given.name, schema_of(given)
        if given.kind == "topic":
            assert self.servers is not None
            named = {**COLUMNS, **({"ts": "TIMESTAMP"} if "ts" in schema.names else {})}
            named |= {"op": "VARCHAR"} if given.way == "changes" else {}
            topic = topic_of(self.root, given.name)
            return weft.read.kafka(self.servers, topic, schema=named, max_rows=ROWS, patience="3 minutes")
        if given.kind == "frame":
            from pyspark.sql.pandas.types import from_arrow_schema

            from weft.launch.spark import local_session

            spark = self.spark or local_session(self.workers)
            spark.conf.set("spark.sql.streaming.fileSource.log.deletion", "false")  # see docs/chaos.md
            reader = spark.readStream.schema(from_arrow_schema(schema, prefer_timestamp_ntz=True))
            return reader.option("maxFilesPerTrigger", 1).parquet(str(folder))
        read = {"parquet": weft.read.parquet, "csv": weft.read.csv, "json": weft.read.json}[given.kind]
        return read(folder, max_files=1, schema=schema)

    # ---------------------------------------------------------------------------------------------- running

    def live(self) -> int:
        """Run to the end; the exit code."""
        if self.story.host != "local":
            self.spark = start(self.story.host)
        while True:
            try:
                self._run()
                return 0
            except weft.WeftError as error:
                self._note(error)
                if not jvm_lives() and (self.spark is not None or self.dice.random() < 0.5):
                    return JVM_GONE
                self.point = None
                threading.Event().wait(0.2)
            except Exception:
                if self.spark is None or jvm_lives():
                    raise
                return JVM_GONE  # the job's own call of Spark, not one of Weft's

    def _run(self) -> None:
        finish = self.root / "finish"
        if not finish.exists():
            self._run_until(finish)
        with self.session() as last:
            if self.story.extra is not None:
                made = last.query(LAST, self.story.extra.sql, backfill=True, complete=True)
                attach(made, self.story.extra, self.root, None)
            last.run()

    def _run_until(self, finish: Path) -> None:
        session = self.session()
        if self.point is not None:
            mark = str(self.root / f"mark{self.number}")
            session.crash_point = CrashPoint(self.point, session.checkpoint.last + 2, "hang", mark)
        with session:
            handle = session.start(every=0.01)
            changed = session.checkpoint.last
            while not finish.exists() and not handle.wait(self.dice.uniform(0.3, 1.5) if self.is_changing else 0.05):
                if self.is_changing and session.checkpoint.last > changed:  # batches must get on, however slow they are
                    changed = session.checkpoint.last
                    self._change(session)
            handle.stop()

    def _change(self, session: weft.Session) -> None:
        """Something else every time: one query more or less, or other workers."""
        extra = self.story.extra
        assert extra is not None
        if EXTRA in session.queries and self.dice.random() < 0.5:
            session.drop(EXTRA)
        elif EXTRA not in session.queries and self.dice.random() < 0.5:
            self.added += 1
            made = session.query(EXTRA, extra.sql, backfill=True, complete=True)
            name = f"{self.number}-{self.added}"
            made.to_memory() if extra.is_view else made.to_parquet(out(self.root) / EXTRA / name)
        else:
            session.rescale(self.dice.randint(1, 3))

    def _note(self, error: weft.WeftError) -> None:
        line = {"life": self.number, "kind": type(error).__name__, "said": str(error)}
        with open(self.root / "failures", "a") as file:
            file.write(json.dumps(line) + "\n")
        print(f"failed: {error}", flush=True)


def start(host: str) -> Any:
    """A session of Spark that runs lost tasks again: in its own JVM, or in two others on this machine."""
    if host == "retries":
        return weft.spark(master="local[2,8]")
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    settings = {"spark.executor.memory": "600m", "spark.deploy.maxExecutorRetries": "-1", "spark.ui.enabled": "false"}
    made = weft.spark(settings, master="local-cluster[2,1,700]")
    made.sparkContext.setLogLevel("OFF")
    return made


def end_with_parent() -> None:
    """Nothing of a job stays if the one who tells the story ends: then the input of the job ends."""
    sys.stdin.read()
    os.killpg(0, signal.SIGKILL)


def jvm_lives() -> bool:
    """Whether Spark's JVM is still there.  One that was killed is a process for a while, but does not answer."""
    from pyspark import SparkContext

    from weft.launch.spark import is_gone

    return SparkContext._gateway is not None and not is_gone()


def main() -> int:
    root, life, servers, point = sys.argv[1:]
    threading.Thread(target=end_with_parent, daemon=True).start()
    faulthandler.register(signal.SIGUSR1)  # where a job is that does not get on
    story = pickle.loads(Path(root, "story").read_bytes())
    return Life(story, Path(root), servers or None, int(life), point or None).live()


if __name__ == "__main__":
    sys.exit(main())
