"""Large payloads in files: what comes out is what went in, whoever reads it how often, and no file stays."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.host.envelope import REPORT, Envelope
from weft.host.spark.exchange import from_rows, to_rows
from weft.host.spark.parcels import ALIGNED, LEAST, Inbox, Outbox, Parcels


class Here:
    """What is asked of a SparkContext."""

    def __init__(self, master: str) -> None:
        self.master = master


def frame(rows: int, text: str = "") -> pa.RecordBatch:
    """Tuples of eight bytes each, and of a text."""
    numbers = pa.array([1 << 40 | n for n in range(rows)], pa.int64())
    return pa.RecordBatch.from_arrays([numbers, pa.array([text or None] * rows, pa.string())], names=["k", "s"])


def parcels_in(root: str, master: str = "local[2]") -> Parcels:
    """Folders of a session on one machine, or on a cluster."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pyspark.SparkFiles.getRootDirectory", lambda: root)
        made = Parcels(Here(master))  # type: ignore[arg-type]
        assert made._root == root, "noted while Spark's folder is this one"
    return made


@pytest.fixture
def parcels(tmp_path: Path) -> Parcels:
    """Folders of a session on one machine."""
    return parcels_in(str(tmp_path))


SIZES = st.sampled_from([0, 1, LEAST // 16, LEAST // 8 - 1, LEAST // 8, LEAST // 8 + 1, 20_000, 65_536])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(SIZES, st.integers(0, 5), st.booleans()), max_size=8), st.booleans())
def test_what_is_sent_arrives(sent: list[tuple[int, int, bool]], on_one_machine: bool) -> None:
    envelopes = [
        Envelope(dest, seq, REPORT, report={"n": "x" * rows})
        if told
        else Envelope(dest, seq, "e", frame(rows).slice(1))
        for seq, (rows, dest, told) in enumerate(sent)
    ]
    master = "local[2]" if on_one_machine else "spark://host:7077"
    with tempfile.TemporaryDirectory() as root, parcels_in(root, master).folder() as folder:
        rows = [*to_rows(envelopes, folder)]
        found = sorted(from_rows(rows), key=lambda envelope: envelope.seq)
        again = sorted(from_rows(rows), key=lambda envelope: envelope.seq)  # a task that is started a second time
    assert found == again == envelopes  # mapped files stay readable when their folder is gone
    for envelope in found:
        if envelope.frame is not None:
            envelope.frame.validate(full=True)


def test_only_places_of_large_payloads_travel(parcels: Parcels, tmp_path: Path) -> None:
    many = [Envelope(0, seq, "e", frame(65_536)) for seq in range(5)]
    with parcels.folder() as folder:
        assert folder is not None
        assert sum(batch.nbytes for batch in to_rows(many, folder)) < 2_000
        assert len([*Path(folder).iterdir()]) == 1
        assert sum(batch.nbytes for batch in to_rows(many, None)) > 5 * 65_536 * 8
    assert not [*tmp_path.iterdir()]


def test_two_attempts_of_a_task_have_files_of_their_own(parcels: Parcels) -> None:
    with parcels.folder() as folder, Outbox(folder) as first, Outbox(folder) as second:
        places = [box.put(Envelope(0, 0, "e", frame(20_000, text))) for box, text in ((first, "a"), (second, "b"))]
        inbox = Inbox()
        found = [pa.ipc.open_stream(inbox.get(place)).read_next_batch()["s"][0].as_py() for place in places]
    assert found == ["a", "b"]


def test_payloads_begin_where_arrow_wants_them(parcels: Parcels) -> None:
    with parcels.folder() as folder, Outbox(folder) as outbox:
        frames = [frame(rows, "x" * (rows % 7)) for rows in (20_000, 20_001, 20_003)]
        places = [outbox.put(Envelope(0, 0, "e", found)) for found in frames]
        inbox = Inbox()
        assert [inbox.get(place).address % ALIGNED for place in places] == [0, 0, 0]


def test_the_folder_goes_when_the_job_fails(parcels: Parcels, tmp_path: Path) -> None:
    def failing() -> Iterator[Envelope]:
        yield Envelope(0, 0, "e", frame(65_536))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), parcels.folder() as folder:
        [*to_rows(failing(), folder)]
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host", "local-cluster[2,1,1024]"])
def test_tasks_on_several_machines_share_no_folder(master: str) -> None:
    with parcels_in("/nowhere", master).folder() as folder:
        assert folder is None
