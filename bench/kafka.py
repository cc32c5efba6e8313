"""Joins of Kafka topics, with the broker on the same machine.

    python -m bench.kafka [--rows 10000000] [--batch 1000000] [--topics 2,4]
                          [--systems weft,weft-frame,spark,spark-rocksdb,flink] [--rate 10000] [--seconds 30]

Every topic has 3 partitions and JSON records of about 150 bytes; topics are joined by a key that is unique in each,
over full history.  Systems: `weft` reads topics itself, `weft-frame` gets them from Spark's connector, `spark` and
`spark-rocksdb` are Spark's own cascade over the same connector, with its state on a heap of 12 GB or in RocksDB,
`flink` is Flink SQL with its own connector.  Each runs in a process of its own over everything that is there, at most
`--batch` records of each topic in one batch; the number of its results is checked.  A steady rate is that after the
second batch, from commit to commit.  Processor time counts the whole process with all that it starts.

Then records are sent at a steady rate into two topics, and an independent reader of the topic of results says how long
each result took, from its later record to the commit that shows it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow.dataset as ds
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

import weft
from bench.broker import Broker, missing, running
from bench.machine import machine_line
from bench.peersetup import SYSTEMS as PEERS
from bench.peersetup import environment, ready
from bench.peersystems.spark import ROCKSDB, batch_end
from bench.saying import block, say

PARTITIONS = 3
COLUMNS = {"k": "BIGINT", "v": "BIGINT", "at": "BIGINT"}
CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)
"""Spark's connector; 4.3.0 has none of its own number everywhere."""
FLINK = ("org.apache.flink:flink-sql-connector-kafka:5.0.0-2.2",)
"""Flink's connector, the newest there is."""
LIMIT = 3600


def main() -> None:
    """Run the workloads, or one system over topics that are there."""
    asked = _arguments()
    if asked.system:
        print(json.dumps(SYSTEMS[asked.system](_task(asked))), flush=True)
        return
    if why := missing():
        raise SystemExit(why)
    print(machine_line())
    lines: list[str] = []
    with running() as broker:
        for count in map(int, asked.topics.split(",")):
            lines += _throughput(broker, count, asked)
        if asked.seconds:
            lines.append(_latency(broker, asked.rate, asked.seconds))
    block("joins of Kafka topics", lines)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--batch", type=int, default=1_000_000)
    parser.add_argument("--topics", default="2,4")
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--rate", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--system", help=argparse.SUPPRESS)
    parser.add_argument("--servers", help=argparse.SUPPRESS)
    parser.add_argument("--names", help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    return parser.parse_args()


@dataclass(frozen=True)
class Task:
    """What one system has to do."""

    servers: str
    names: tuple[str, ...]
    rows: int
    """Records in all topics."""
    batch: int
    """At most this many records of each topic in one batch."""
    out: Path

    @property
    def sql(self) -> str:
        first, *rest = self.names
        joins = " ".join(f"JOIN {name} ON {name}.k = {first}.k" for name in rest)
        values = ", ".join(f"{name}.v AS v_{name}" for name in self.names)
        return f"SELECT {first}.k, {values} FROM {first} {joins}"

    def told(self, seconds: float, ends: Sequence[tuple[float, int]] = ()) -> dict[str, float | None]:
        """What it took; `ends` are the times at which batches were committed, and their rows."""
        found = ds.dataset(self.out / "results", format="parquet", exclude_invalid_files=True)
        steady = None
        if len(ends) > 2:
            steady = sum(rows for _, rows in ends[2:]) / (ends[-1][0] - ends[1][0])
        return {"seconds": seconds, "results": int(found.count_rows()), "steady": steady}


def _task(asked: argparse.Namespace) -> Task:
    return Task(asked.servers, tuple(asked.names.split(",")), asked.rows, asked.batch, Path(asked.out))


# ---------------------------------------------------------------------------------------------- topics


def _make_topics(broker: Broker, names: Sequence[str]) -> None:
    admin = AdminClient({"bootstrap.servers": broker.servers})
    for future in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names]).values():
        future.result(60)


def _producer(broker: Broker) -> Any:
    return Producer(
        {"bootstrap.servers": broker.servers, "linger.ms": 20, "batch.size": 1 << 20, "log_level": 0,
         "queue.buffering.max.messages": 1_000_000}
    )  # fmt: skip


def _record(key: int, at: int) -> bytes:
    return b'{"k":%d,"v":%d,"at":%d,"note":"%s"}' % (key, key * 7, at, b"x" * 96)


def _fill(broker: Broker, name: str, rows: int, seed: int) -> None:
    """Every key once, in an order of its own."""
    producer = _producer(broker)
    for number, key in enumerate(np.random.default_rng(seed).permutation(rows).tolist()):
        while True:
            try:
                producer.produce(name, _record(key, number))
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


# ------------------------------------------------------------------------------------------ throughput


def _throughput(broker: Broker, count: int, asked: argparse.Namespace) -> Iterator[str]:
    each, names = asked.rows // count, tuple(f"c{count}t{number}" for number in range(count))
    _make_topics(broker, names)
    say(f"{count} topics, {each:,} records each: sending")
    for seed, name in enumerate(names):
        _fill(broker, name, each, seed)
    for system in asked.systems.split(","):
        say(f"{count} topics: {system}")
        with tempfile.TemporaryDirectory(prefix="weft-bench-") as out:
            task = Task(broker.servers, names, each * count, asked.batch, Path(out))
            line = f"{count} topics  {system:<13} {_measure(system, task, each)}"
        print(f"  {line}", flush=True)
        yield line


def _measure(system: str, task: Task, results: int) -> str:
    command = [
        sys.executable, "-m", "bench.kafka", "--system", system, "--servers", task.servers, "--out", str(task.out),
        "--names", ",".join(task.names), "--rows", str(task.rows), "--batch", str(task.batch),
    ]  # fmt: skip
    with open(task.out / "said", "w") as said:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True)
        worked = _watch(process)
    if process.returncode:
        lines = [line for line in (task.out / "said").read_text().splitlines() if line.strip()]
        return f"failed: {lines[-1][:150] if lines else process.returncode}"
    assert process.stdout is not None
    told = json.loads(process.stdout.read().splitlines()[-1])
    if told["results"] != results:
        return f"wrong: {told['results']:,} results instead of {results:,}"
    steady = "no batches" if told["steady"] is None else f"{told['steady']:,.0f} steady"
    whole = f"{task.rows / told['seconds']:>10,.0f} rows per second"
    return f"{whole}   {steady:<16} {told['seconds']:.1f} s without the start   {worked:.0f} s of processor time"


def _watch(process: subprocess.Popen[str]) -> float:
    """Wait for a process; the seconds that processors worked for it and all that it started."""
    began, worked = time.monotonic(), 0.0
    while process.poll() is None:
        if time.monotonic() > began + LIMIT:
            process.kill()
        with suppress(psutil.Error):
            found = psutil.Process(process.pid)
            worked = max(worked, sum(_worked(one) for one in (found, *found.children(recursive=True))))
        time.sleep(0.2)
    return worked


def _worked(process: psutil.Process) -> float:
    try:
        return sum(process.cpu_times()[:4])
    except psutil.Error:
        return 0.0  # it has just ended


def _weft(task: Task) -> dict[str, float | None]:
    s = weft.Session(task.out / "state", progress=False)
    for name in task.names:
        s.stream(name, weft.read.kafka(task.servers, name, schema=COLUMNS, max_rows=task.batch))
    return _run(s, task)


def _run(s: weft.Session, task: Task) -> dict[str, float | None]:
    s.query("q", task.sql).to_parquet(task.out / "results")
    began = time.perf_counter()
    handle = s.start(every=0.001)
    ends: list[tuple[float, int]] = []
    while sum(rows for _, rows in ends) < task.rows and handle.active:
        time.sleep(0.005)
        new = handle.history(handle.report().count - len(ends))
        ends += [(time.perf_counter(), batch.total_in) for batch in new]
    handle.stop()
    return task.told(time.perf_counter() - began - (handle.report().starting or 0), ends)


def _weft_frame(task: Task) -> dict[str, float | None]:
    spark = weft.spark({"spark.jars": _connector()})
    s = weft.Session(task.out / "state", spark, progress=False)
    for name, frame in _frames(spark, task).items():
        s.stream(name, frame)
    return _run(s, task)


def _frames(spark: Any, task: Task) -> dict[str, Any]:
    """The topics, as Spark's connector reads them."""
    from pyspark.sql import functions as f

    frames = {}
    for name in task.names:
        read = spark.readStream.format("kafka").option("kafka.bootstrap.servers", task.servers)
        read = read.option("subscribe", name).option("startingOffsets", "earliest")
        parsed = f.from_json(f.col("value").cast("string"), "k LONG, v LONG").alias("r")
        frames[name] = read.option("maxOffsetsPerTrigger", task.batch).load().select(parsed).select("r.k", "r.v")
    return frames


def _spark(task: Task, store: Mapping[str, str] | None = None) -> dict[str, float | None]:
    spark = _plain_spark({**(store or {})})
    for name, frame in _frames(spark, task).items():
        frame.createOrReplaceTempView(name)
    began = time.perf_counter()
    writer = spark.sql(task.sql).writeStream.format("parquet").option("checkpointLocation", str(task.out / "state"))
    query = writer.trigger(availableNow=True).start(str(task.out / "results"))
    query.awaitTermination()
    seconds = time.perf_counter() - began
    return task.told(seconds, [batch_end(one) for one in query.recentProgress if one["numInputRows"]])


def _plain_spark(settings: Mapping[str, str]) -> Any:
    """Spark as it comes, with much memory."""
    from pyspark.sql import SparkSession

    os.environ |= environment(PEERS["spark"])
    ours = {
        "spark.driver.memory": "12g",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
        "spark.log.level": "ERROR",
        "spark.jars": _connector(),
        **settings,
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in ours.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _flink(task: Task) -> dict[str, float | None]:
    system = PEERS["flink"]
    python = ready(system)
    if isinstance(python, str):
        raise SystemExit(python)
    [jar] = _jars("flink", FLINK)
    script = Path(__file__).parent / "peersystems" / "flinktopics.py"
    command = [str(python), str(script), task.servers, str(task.out), str(jar), *task.names]
    ended = subprocess.run(command, env={**os.environ, **environment(system)}, capture_output=True, text=True)
    if ended.returncode:
        raise SystemExit(ended.stderr[-500:])
    return task.told(json.loads(ended.stdout.splitlines()[-1])["seconds"])


def _connector() -> str:
    return ",".join(map(str, _jars("connector", CONNECTOR)))


def _jars(name: str, artifacts: Sequence[str]) -> list[Path]:
    """The jars of a connector, fetched once."""
    folder = Path(sys.prefix) / "kafka" / name
    if not folder.exists():
        if shutil.which("mvn") is None:
            raise SystemExit(f"no mvn: {artifacts[0]} cannot be fetched")
        aside = folder.with_name(f"{name}.{os.getpid()}")
        for artifact in artifacts:
            command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={aside}"]
            if subprocess.run(command, capture_output=True, check=False).returncode:
                raise SystemExit(f"{artifact} cannot be fetched")
        aside.rename(folder)
    return sorted(folder.glob("*.jar"))


SYSTEMS = {
    "weft": _weft,
    "weft-frame": _weft_frame,
    "spark": _spark,
    "spark-rocksdb": partial(_spark, store=ROCKSDB),
    "flink": _flink,
}


# --------------------------------------------------------------------------------------------- latency


def _latency(broker: Broker, rate: int, seconds: float) -> str:
    say(f"latency at {rate:,} records per second, for {seconds:g} s")
    _make_topics(broker, ["la", "lb", "lout"])
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as out:
        s = weft.Session(Path(out) / "state", progress=False)
        for name in ("la", "lb"):
            s.stream(name, weft.read.kafka(broker.servers, name, schema=COLUMNS))
        sql = "SELECT la.k, greatest(la.at, lb.at) AS at FROM la JOIN lb ON la.k = lb.k"
        s.query("q", sql).to_kafka(broker.servers, "lout")
        with s:
            s.start(every=0.02)
            sent = threading.Thread(target=_send, args=(broker, rate, seconds))
            sent.start()
            waits = _receive(broker, int(rate * seconds) // 2)
            sent.join()
    late = np.sort(waits[len(waits) // 5 :])  # the first results wait for the first batch of the session
    return (
        f"latency at {rate:,} records per second: p50 {np.quantile(late, 0.5):.0f} ms, "
        f"p99 {np.quantile(late, 0.99):.0f} ms, over {len(late):,} results"
    )


def _send(broker: Broker, rate: int, seconds: float) -> None:
    """Pairs of records, at a steady rate."""
    producer, began = _producer(broker), time.monotonic()
    for key in range(int(rate * seconds) // 2):
        ahead = began + 2 * key / rate - time.monotonic()
        if ahead > 0.001:
            producer.poll(ahead)
        for name in ("la", "lb"):
            producer.produce(name, _record(key, time.time_ns() // 1_000_000))
    producer.flush()


def _receive(broker: Broker, expected: int) -> Any:
    """Milliseconds that each result took, in the order in which they came."""
    consumer = Consumer(
        {"bootstrap.servers": broker.servers, "group.id": "latency", "isolation.level": "read_committed",
         "auto.offset.reset": "earliest", "fetch.wait.max.ms": 5, "log_level": 0}
    )  # fmt: skip
    consumer.subscribe(["lout"])
    waits: list[int] = []
    limit = time.monotonic() + LIMIT
    while len(waits) < expected and time.monotonic() < limit:
        came, now = consumer.consume(10_000, 0.01), time.time_ns() // 1_000_000
        waits += [now - json.loads(message.value())["at"] for message in came if message.error() is None]
    consumer.close()
    return np.array(waits)


if __name__ == "__main__":
    main()
