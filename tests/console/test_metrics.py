"""Metrics: one list of numbers, in the words of Prometheus and of OpenTelemetry."""

from __future__ import annotations

import http.server
import json
import re
import threading
from pathlib import Path
from typing import ClassVar

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from tests.console.kit import Clock, Run, declare, make_checkpoint
from weft.console.command import exporting, grafana_board
from weft.console.metrics import Metric, read_metrics, to_prometheus
from weft.console.otel import Export
from weft.console.picture import Picture


@pytest.fixture
def metrics(tmp_path: Path) -> dict[str, Metric]:
    return {metric.name: metric for metric in read_metrics(Picture(make_checkpoint(tmp_path)))}


def test_counters_are_those_of_the_checkpoint(metrics: dict[str, Metric]) -> None:
    assert dict(metrics["weft_rows_total"].samples)[("stream", "a"),] == 500
    assert dict(metrics["weft_results_total"].samples)[("query", "q1"),] == 35
    assert metrics["weft_batches_total"].samples == (((), 5.0),)
    assert metrics["weft_skew_ratio"].samples == (((), 1.5),)
    assert metrics["weft_watermark_timestamp_seconds"].samples[0][1] == 4.0


def test_names_follow_the_conventions(metrics: dict[str, Metric]) -> None:
    for name, metric in metrics.items():
        assert re.fullmatch(r"weft_[a-z_]+", name)
        assert name.endswith("_total") == (metric.kind == "counter")
        assert metric.help.endswith(".")


def test_the_text_is_what_prometheus_reads(metrics: dict[str, Metric]) -> None:
    text = to_prometheus(metrics.values())
    sample = re.compile(r'[a-z_]+(\{[a-z_]+="(\\.|[^"\\])*"(,[a-z_]+="(\\.|[^"\\])*")*\})? -?[0-9.e+-]+')
    lines = text.rstrip("\n").split("\n")
    assert all(line.startswith("# ") or sample.fullmatch(line) for line in lines)
    assert 'weft_rows_total{stream="a"} 500.0' in lines
    assert len([line for line in lines if line.startswith("# TYPE")]) == len(
        {line.split()[2] for line in lines if line[0] == "#"}
    )


def test_labels_are_escaped() -> None:
    metric = Metric("weft_x", "gauge", "X.", (((("query", 'a"b\\c\nd'),), 1.0),))
    assert 'weft_x{query="a\\"b\\\\c\\nd"} 1.0' in to_prometheus([metric])


def test_the_board_asks_for_metrics_that_exist(metrics: dict[str, Metric]) -> None:
    board = json.loads(grafana_board())
    asked = set(re.findall(r"weft_[a-z_]+", json.dumps(board["panels"])))
    assert asked
    assert asked <= set(metrics)


def test_opentelemetry_sees_new_numbers(tmp_path: Path) -> None:
    run = Run(declare(tmp_path), Clock())
    reader = InMemoryMetricReader()
    export = Export(run.root, reader)
    run.batch()
    export._known = (0.0, {})
    data = reader.get_metrics_data()
    assert data is not None
    found = {m.name: m.data for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics}
    assert {point.attributes["stream"]: point.value for point in found["weft.rows"].data_points} == dict.fromkeys(
        "abc", 100
    )
    assert found["weft.rows"].is_monotonic
    export.close()


class Collector(http.server.BaseHTTPRequestHandler):
    """Takes what is sent to a collector."""

    got: ClassVar[list[bytes]] = []

    def do_POST(self) -> None:
        self.got.append(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def test_a_collector_gets_the_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", "none")
        with exporting(make_checkpoint(tmp_path), True):
            pass  # what there is, is sent at the end
        server.shutdown()
    sent = ExportMetricsServiceRequest.FromString(Collector.got[-1])
    names = {m.name for r in sent.resource_metrics for s in r.scope_metrics for m in s.metrics}
    assert {"weft.rows", "weft.results", "weft.store_bytes"} <= names
