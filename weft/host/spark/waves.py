"""One job of Spark: the waves of a plan, one after the other, over the rows of a batch."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark import SparkContext

from weft.host.batch import Batch, Report
from weft.host.envelope import unpack
from weft.host.spark.exchange import WaveTask
from weft.host.spark.homing import Homes
from weft.host.spark.mapped import ENVELOPES, mapped
from weft.host.spark.parcels import Parcels
from weft.host.spark.reading import Reading
from weft.host.state.place import Place
from weft.topology.model import Topology


class Waves:
    """Runs jobs over the state of one place."""

    def __init__(self, context: SparkContext, place: Place) -> None:
        self._place = place
        self._homes = Homes(context)
        """Where tasks run, by their workers."""
        self._parcels = Parcels(context)

    def run(self, rows: Reading, plan: Any, topology: Topology, batch: Batch, folder: str) -> Report:
        """Run all waves as one job, and return the counters of all tasks; results go to a folder in the place."""
        report = Report()
        with self._parcels.folder() as large:
            frame = rows.envelopes(plan, batch, large)
            for wave in range(1, topology.waves + 1):
                task = WaveTask(plan, batch, wave, self._place, folder, large)
                frame = self._homes.seek(frame.repartitionById(topology.workers, "dest"), topology.workers)
                if wave > 1 and topology.stores_late:
                    frame = frame.sortWithinPartitions("seq")  # rows to store come first, see weft.host.worker
                frame = mapped(frame, task, ENVELOPES)
            for row in frame.collect():  # reports alone, and these travel in their rows
                payload = pa.py_buffer(bytes(row.payload))
                report.merge(unpack(row.dest, row.seq, row.edge, payload).report or {})
        return report
