"""The numbers of a checkpoint by name: for Prometheus as text, for OpenTelemetry as instruments.

Names follow the conventions of Prometheus: a prefix, the unit in plural, `_total` for what only grows.  Counters are
those of the checkpoint, so they go on where they were when a run is started again.  To add one: a line in
`read_metrics`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from weft.console.picture import Picture, read_stores
from weft.observe.counters import Counters
from weft.query.derived import is_hidden

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Metric:
    """A number with a name, for each of some labels."""

    name: str
    kind: Literal["counter", "gauge"]
    help: str
    samples: tuple[tuple[Labels, float], ...]


def read_metrics(picture: Picture) -> list[Metric]:
    """All metrics of a checkpoint, as of its last commit.  They are the same ones for every checkpoint."""
    from weft import __version__

    picture.advance()
    manifest, last = picture.manifest(), picture.last() or {}
    totals, stores, epoch = manifest.totals, read_stores(manifest), picture.epoch()
    workers = 1 if epoch is None else epoch.topology.workers
    load = Counters(load=dict(last.get("load", {})))
    return [
        _one("weft_info", "gauge", "The version of Weft and the checkpoint.", 1, version=__version__,
             checkpoint=picture.root.name),
        _one("weft_running", "gauge", "Whether a run is going on.", picture.life()["state"] == "running"),
        _by("weft_rows_total", "counter", "Rows read.", "stream", totals.rows_in),
        _by("weft_late_rows_total", "counter", "Rows dropped below the watermark.", "stream", totals.late),
        _by("weft_untimed_rows_total", "counter", "Rows dropped without event time.", "stream", totals.untimed),
        _by("weft_unreadable_records_total", "counter", "Records left out.", "stream", totals.unreadable),
        _by("weft_lost_records_total", "counter", "Records deleted before they were read.", "stream", totals.lost),
        _by("weft_results_total", "counter", "Results.", "query", totals.results),
        _one("weft_batches_total", "counter", "Committed batches.", manifest.batch + 1),
        _one("weft_epoch", "gauge", "How often the plan has changed.", manifest.epoch),
        _by("weft_worker_seconds_total", "counter", "Seconds of work, over all workers.", "wave", totals.seconds),
        _by("weft_worker_load_total", "counter", "Rows stored and tuples answered.", "worker", totals.load),
        _by("weft_probed_tuples_total", "counter", "Tuples that came to a probe.", "probe", totals.probed),
        _by("weft_matched_tuples_total", "counter", "Matches that a probe made.", "probe", totals.matched),
        _by("weft_stored_rows_total", "counter", "Rows ever stored.", "store", totals.stored),
        _by("weft_store_rows", "gauge", "Rows kept.", "store", {name: one["rows"] for name, one in stores.items()}),
        _by("weft_store_bytes", "gauge", "Bytes kept.", "store", {name: one["bytes"] for name, one in stores.items()}),
        _one("weft_segments", "gauge", "Files of state.", len(manifest.segments)),
        _one("weft_replication_ratio", "gauge", "Copies made of a row of a stream.", totals.replication_factor),
        _one("weft_skew_ratio", "gauge", "Load of the busiest worker over the average.", load.skew_degree(workers)),
        _by("weft_newest_event_timestamp_seconds", "gauge", "Newest event time.", "stream", _seconds(manifest.newest)),
        _by("weft_watermark_timestamp_seconds", "gauge", "Watermark.", "query", _seconds(_watermarks(picture))),
        _by("weft_waiting_records", "gauge", "Records that wait to be read.", "stream", last.get("lag", {})),
        _one("weft_last_batch_seconds", "gauge", "Time of the last batch.", last.get("slowest")),
        _one("weft_last_commit_timestamp_seconds", "gauge", "When a batch was last committed.", last.get("until")),
        _by("weft_memory_bytes", "gauge", "Resident memory.", "process", last.get("memory", {})),
    ]  # fmt: skip


def to_prometheus(metrics: Iterable[Metric]) -> str:
    """Metrics in the text format of Prometheus."""
    return "\n".join(line for metric in metrics if metric.samples for line in _lines(metric)) + "\n"


def _lines(metric: Metric) -> Iterator[str]:
    yield f"# HELP {metric.name} {metric.help}"
    yield f"# TYPE {metric.name} {metric.kind}"
    for labels, value in metric.samples:
        inner = ",".join(f'{name}="{_escape(text)}"' for name, text in labels)
        yield f"{metric.name}{{{inner}}} {value!r}" if inner else f"{metric.name} {value!r}"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _one(name: str, kind: Literal["counter", "gauge"], about: str, value: float | None, **labels: str) -> Metric:
    samples = () if value is None else ((tuple(labels.items()), float(value)),)
    return Metric(name, kind, about, samples)


def _by(
    name: str, kind: Literal["counter", "gauge"], about: str, label: str, values: Mapping[str, float | int]
) -> Metric:
    shown = {key: value for key, value in values.items() if label not in ("stream", "query") or not is_hidden(key)}
    return Metric(name, kind, about, tuple((((label, key),), float(value)) for key, value in sorted(shown.items())))


def _seconds(micros: Mapping[str, int]) -> dict[str, float]:
    return {name: moment / 1e6 for name, moment in micros.items()}


def _watermarks(picture: Picture) -> dict[str, int]:
    """Query -> its watermark in microseconds, where it has one."""
    epoch = picture.epoch()
    clocks = () if epoch is None else epoch.topology.clocks
    newest = dict(picture.manifest().newest)
    marks = {query: clock.watermark(newest) for clock in clocks if clock.streams for query in clock.queries}
    return {query: mark for query, mark in marks.items() if mark is not None}
