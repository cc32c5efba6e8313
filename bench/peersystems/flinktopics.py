"""Flink SQL over Kafka topics: `python flinktopics.py SERVERS FOLDER JAR TOPIC...`, in Flink's own environment.

A cascade of joins by one key over full history, in its local cluster with two slots, heap state and a checkpoint every
ten seconds.  Topics are read to the offsets that they have when it begins, so the job ends.  The last line says the
seconds from the first running task to the end.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("JVM_ARGS", "-Xmx10g -XX:+UseParallelGC")

from pyflink.table import EnvironmentSettings, TableEnvironment


def run(servers: str, folder: Path, jar: Path, topics: list[str]) -> float:
    """Seconds that the join takes."""
    table = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for name, value in _settings(folder, jar).items():
        table.get_config().set(name, value)
    for topic in topics:
        table.execute_sql(f"CREATE TABLE {topic} (k BIGINT, v BIGINT) WITH ({_options(_topic(servers, topic))})")
    columns = ["k", *(f"v_{topic}" for topic in topics)]
    made = ", ".join(f"{column} BIGINT" for column in columns)
    files = {"connector": "filesystem", "path": (folder / "results").as_uri(), "format": "parquet"}
    table.execute_sql(f"CREATE TABLE results ({made}) WITH ({_options(files)})")
    running = table.execute_sql(f"INSERT INTO results {_query(topics)}")
    began = _await_running(running.get_job_client())
    running.wait()
    return time.time() - began


def _settings(folder: Path, jar: Path) -> dict[str, str]:
    return {
        "pipeline.jars": jar.as_uri(),
        "parallelism.default": "2",
        "pipeline.object-reuse": "true",
        "state.backend.type": "hashmap",
        "execution.checkpointing.interval": "10 s",
        "execution.checkpointing.storage": "filesystem",
        "execution.checkpointing.dir": (folder / "state").as_uri(),
        "restart-strategy.type": "none",
    }


def _topic(servers: str, topic: str) -> dict[str, str]:
    return {
        "connector": "kafka",
        "topic": topic,
        "properties.bootstrap.servers": servers,
        "properties.group.id": "flink",
        "scan.startup.mode": "earliest-offset",
        "scan.bounded.mode": "latest-offset",
        "format": "json",
    }


def _query(topics: list[str]) -> str:
    first, *rest = topics
    joins = " ".join(f"JOIN {topic} ON {topic}.k = {first}.k" for topic in rest)
    return f"SELECT {first}.k, {', '.join(f'{topic}.v' for topic in topics)} FROM {first} {joins}"


def _options(named: dict[str, str]) -> str:
    return ", ".join(f"'{name}' = '{value}'" for name, value in named.items())


def _await_running(client: Any) -> float:
    """When all tasks were up: what comes before is start-up."""
    while client.get_job_status().result().name in ("INITIALIZING", "CREATED"):
        time.sleep(0.02)
    return time.time()


if __name__ == "__main__":
    print(json.dumps({"seconds": run(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])}), flush=True)
