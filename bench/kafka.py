"""Joins of Kafka topics, with the broker on the same machine.

    python -m bench.kafka [--rows 10000000] [--topics 2,4] [--systems weft,weft-frame,spark,flink]
                          [--rate 10000] [--seconds 30]

Every topic has 3 partitions and JSON records of about 150 bytes; topics are joined by a key that is unique in each,
over full history.  Systems: `weft` reads topics itself, `weft-frame` gets them from Spark's connector, `spark` is
Spark's own cascade over the same connector, `flink` is Flink SQL with its own connector.  Each runs in a process of its
own over everything that is there; the number of its results is checked.  Then records are sent at a steady rate into
two topics, and an independent reader of the topic of results says how long each result took, from its later record to
the commit that shows it.
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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.dataset as ds
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

import weft
from bench.broker import Broker, missing, running
from bench.machine import machine_line
from bench.peersetup import SYSTEMS as PEERS
from bench.peersetup import environment, ready
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
        print(json.dumps(SYSTEMS[asked.system](asked.servers, asked.names.split(","), Path(asked.out))), flush=True)
        return
    if why := missing():
        raise SystemExit(why)
    print(machine_line())
    lines: list[str] = []
    with running() as broker:
        for count in map(int, asked.topics.split(",")):
            lines += _throughput(broker, count, asked.rows, asked.systems.split(","))
        if asked.seconds:
            lines.append(_latency(broker, asked.rate, asked.seconds))
    block("joins of Kafka topics", lines)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--topics", default="2,4")
    parser.add_argument("--systems", default="weft,weft-frame,spark,flink")
    parser.add_argument("--rate", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--system", help=argparse.SUPPRESS)
    parser.add_argument("--servers", help=argparse.SUPPRESS)
    parser.add_argument("--names", help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    return parser.parse_args()


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


def _throughput(broker: Broker, count: int, rows: int, systems: Sequence[str]) -> Iterator[str]:
    each, names = rows // count, [f"c{count}t{number}" for number in range(count)]
    _make_topics(broker, names)
    say(f"{count} topics, {each:,} records each: sending")
    for seed, name in enumerate(names):
        _fill(broker, name, each, seed)
    for system in systems:
        say(f"{count} topics: {system}")
        yield f"{count} topics  {system:<11} {_measure(system, broker.servers, names, each)}"


def _measure(system: str, servers: str, names: Sequence[str], results: int) -> str:
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as out:
        command = [sys.executable, "-m", "bench.kafka", "--system", system, "--servers", servers, "--out", out]
        ended = subprocess.run(
            [*command, "--names", ",".join(names)], capture_output=True, text=True, timeout=LIMIT, check=False
        )
    if ended.returncode:
        said = [line for line in ended.stderr.splitlines() if line.strip()]
        return f"failed: {said[-1][:150] if said else ended.returncode}"
    told = json.loads(ended.stdout.splitlines()[-1])
    if told["results"] != results:
        return f"wrong: {told['results']:,} results instead of {results:,}"
    read = results * len(names)
    return f"{read / told['seconds']:>12,.0f} rows per second   {told['seconds']:.1f} s, start not counted"


def _sql(names: Sequence[str]) -> str:
    first, *rest = names
    joins = " ".join(f"JOIN {name} ON {name}.k = {first}.k" for name in rest)
    return f"SELECT {first}.k, {', '.join(f'{name}.v AS v_{name}' for name in names)} FROM {first} {joins}"


def _count(folder: Path) -> int:
    return int(ds.dataset(folder, format="parquet", exclude_invalid_files=True).count_rows())


def _weft(servers: str, names: Sequence[str], out: Path) -> dict[str, float]:
    s = weft.Session(out / "state", progress=False)
    for name in names:
        s.stream(name, weft.read.kafka(servers, name, schema=COLUMNS, max_rows=1_000_000))
    return _run(s, names, out)


def _run(s: weft.Session, names: Sequence[str], out: Path) -> dict[str, float]:
    s.query("q", _sql(names)).to_parquet(out / "results")
    began = time.perf_counter()
    report = s.run()
    return {"seconds": time.perf_counter() - began - (report.starting or 0), "results": _count(out / "results")}


def _frames(servers: str, names: Sequence[str], settings: dict[str, str]) -> tuple[Any, dict[str, Any]]:
    from pyspark.sql import functions as f

    spark = weft.spark({"spark.jars": _connector(), **settings})
    frames = {}
    for name in names:
        read = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", name)
        read = read.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 1_000_000)
        parsed = f.from_json(f.col("value").cast("string"), "k LONG, v LONG").alias("r")
        frames[name] = read.load().select(parsed).select("r.k", "r.v")
    return spark, frames


def _weft_frame(servers: str, names: Sequence[str], out: Path) -> dict[str, float]:
    spark, frames = _frames(servers, names, {})
    s = weft.Session(out / "state", spark, progress=False)
    for name, frame in frames.items():
        s.stream(name, frame)
    return _run(s, names, out)


def _spark(servers: str, names: Sequence[str], out: Path) -> dict[str, float]:
    plain = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
    spark, frames = _frames(servers, names, plain)
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    began = time.perf_counter()
    writer = spark.sql(_sql(names)).writeStream.format("parquet").option("checkpointLocation", str(out / "state"))
    writer.trigger(availableNow=True).start(str(out / "results")).awaitTermination()
    return {"seconds": time.perf_counter() - began, "results": _count(out / "results")}


def _flink(servers: str, names: Sequence[str], out: Path) -> dict[str, float]:
    system = PEERS["flink"]
    python = ready(system)
    if isinstance(python, str):
        raise SystemExit(python)
    [jar] = _jars("flink", FLINK)
    script = Path(__file__).parent / "peersystems" / "flinktopics.py"
    command = [str(python), str(script), servers, str(out), str(jar), *names]
    ended = subprocess.run(command, env={**os.environ, **environment(system)}, capture_output=True, text=True)
    if ended.returncode:
        raise SystemExit(ended.stderr[-500:])
    told = json.loads(ended.stdout.splitlines()[-1])
    return {"seconds": told["seconds"], "results": _count(out / "results")}


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


SYSTEMS = {"weft": _weft, "weft-frame": _weft_frame, "spark": _spark, "flink": _flink}


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
