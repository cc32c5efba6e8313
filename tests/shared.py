"""Random sessions in which queries share stores although their clocks, windows and selections differ.

Streams run at different speeds and out of order, so a row may be late for one query and in time for another.  Some
queries have a table, or a stream without event time, and then no clock.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import weft
from weft.query.model import Query, Stream
from weft.query.resolve import resolve
from weft.sql import parse

SCHEMA = pa.schema([(name, pa.int64()) for name in ("n", "k", "j", "v", "ts")])
SELECTIONS = ("v > 2", "v > 5", "v >= 5", "v > 5 AND j = 1", "j = 1", "v <= 3", "v IS NOT NULL", "j <> 1 AND v < 7")
"""Some imply others."""
PLANS = ("flat", "flat", "left_deep", "exhaustive", "hypercube:hash", "hypercube:random")


@dataclass(frozen=True)
class Shared:
    """A session: its queries, how each is planned, the batches, the number of workers."""

    seed: int
    texts: Mapping[str, str]
    queries: Mapping[str, Query]
    asked: Mapping[str, Mapping[str, Any]]
    batches: Sequence[dict[str, pa.Table]]
    workers: int

    def __str__(self) -> str:
        lines = [f"seed {self.seed}, {self.workers} workers"]
        lines += [f"{name} {self.asked[name]}: {text}" for name, text in self.texts.items()]
        return "\n".join([*lines, ""])

    def describe(self) -> str:
        """All of it, for people."""
        rows = (f"  batch {i}: { {n: t.to_pylist() for n, t in b.items()} }" for i, b in enumerate(self.batches))
        return "\n".join([str(self), *rows])


def make_shared(seed: int, *, windows: bool = False) -> Shared:
    """The session of a seed; with `windows` queries begin with the same join under windows that differ."""
    rng = random.Random(seed)
    streams = {
        name: Stream(name, SCHEMA, event_time="ts", lateness=rng.choice([0, 0, 0, 1, 4]) * 1_000_000)
        for name in "abcd"[: rng.randint(2, 4)]
    }
    streams["u"] = Stream("u", SCHEMA)
    streams["t"] = Stream("t", SCHEMA, table=True)
    core = _core(rng, [*streams]) if windows or rng.random() < 0.6 else None
    texts = {f"q{i}": _query(rng, [*streams], core) for i in range(rng.randint(2, 5))}
    if windows:
        texts = {name: _change_windows(rng, text) for name, text in texts.items()}
    if rng.random() < 0.3:
        texts["again"] = texts["q0"].replace("x", "z")
    queries = {name: resolve(parse(text), streams, {}) for name, text in texts.items()}
    plan = rng.choice(PLANS)
    asked: dict[str, dict[str, Any]] = {
        name: {"strategy": plan if rng.random() < 0.7 else rng.choice(PLANS)} for name in texts
    }
    for name, query in queries.items():
        if core is not None and len(query.relations) > 2 and rng.random() < 0.7:
            asked[name] = {"strategy": weft.Plan([query.aliases[:2]])}
    return Shared(seed, texts, queries, asked, _batches(rng, streams), rng.choice([1, 1, 2, 3, 4]))


Begun = tuple[list[str], list[str], list[str]]
"""The streams of a query so far, what stands in FROM, what stands in WHERE."""


def _core(rng: random.Random, streams: Sequence[str]) -> Begun:
    """A join that several queries begin with."""
    begun: Begun = ([], [], [])
    for _ in range(2):
        _extend(rng, streams, begun, 20)
    return begun


def _query(rng: random.Random, streams: Sequence[str], core: Begun | None) -> str:
    chosen, parts, held = begun = ([], [], []) if core is None else tuple(map(list, core))
    count, default = rng.choice([1, 2, 2, 3, 3, 3, 4]), rng.choice([3, 10, 10, 30])
    while len(parts) < count:
        _extend(rng, streams, begun, default)
    if all(name == "t" for name in chosen):
        _extend(rng, "a", begun, default)
    count = len(parts)
    if core is None and count > 1 and rng.random() < 0.2 and not {chosen[0], chosen[1]} & {"u", "t"}:
        held.append("x0.ts BETWEEN x1.ts AND x1.ts + 5")
    where = f" WHERE {' AND '.join(held)}" if held else ""
    return f"SELECT {', '.join(f'x{i}.n AS n{i}' for i in range(count))} FROM {', '.join(parts)}{where}"


def _change_windows(rng: random.Random, text: str) -> str:
    """Shorter windows, most of them by the same factor; sometimes one is left out."""
    divisor = rng.choice([1, 2, 4])

    def change(found: re.Match[str]) -> str:
        if rng.random() < 0.1:
            return ""
        return f" WITHIN INTERVAL '{max(1, int(found[1]) // (divisor if rng.random() < 0.8 else 1))}' SECOND"

    return re.sub(r" WITHIN INTERVAL '(\d+)' SECOND", change, text)


def _extend(rng: random.Random, streams: Sequence[str], begun: Begun, default: int) -> None:
    """One more relation."""
    chosen, parts, held = begun
    timed = [name for name in streams if name not in "ut"]
    name, i, kind = rng.choice(timed) if rng.random() < 0.9 else rng.choice(streams), len(parts), rng.random()
    size = default if kind < 0.6 else rng.choice([2, 5, 20, 60])
    chosen.append(name)
    parts.append(f"{name} x{i}" + (f" WITHIN INTERVAL '{size}' SECOND" if name not in "ut" and kind < 0.85 else ""))
    if i:
        held.append(f"x{rng.randrange(i)}.k = x{i}.{rng.choice('kkkj')}")
    if rng.random() < 0.4:
        held.append(" AND ".join(f"x{i}.{part}" for part in rng.choice(SELECTIONS).split(" AND ")))


def _batches(rng: random.Random, streams: Mapping[str, Stream]) -> list[dict[str, pa.Table]]:
    count, keys = rng.randint(3, 9), rng.choice([2, 3, 4])
    batches: list[dict[str, pa.Table]] = [{} for _ in range(count)]
    number = 0
    for name, stream in streams.items():
        speed, disorder, holes = rng.choice([1, 3, 6]), rng.choice([2, 6, 12]), rng.choice([0.0, 0.1])
        for place, batch in enumerate(batches[:1] if stream.table else batches):
            rows = []
            for _ in range(rng.randint(1, 5) if stream.table else rng.choice([0, 1, 3, 5])):
                moment = place * speed + rng.randint(-disorder, speed)
                time = None if rng.random() < holes else moment
                value = None if rng.random() < 0.05 else rng.randrange(9)
                rows.append({"n": number, "k": rng.randrange(keys), "j": rng.randrange(3), "v": value, "ts": time})
                number += 1
            if rows or rng.random() < 0.5:
                batch[name] = pa.Table.from_pylist(rows, SCHEMA)
    return batches
