"""Tells Spark on which executor the tasks of each worker should run: on the one that has copies of their segments.

The tasks of a wave read what was sent to them, and Spark has no wish where that is done.  So their rows are paired,
partition by partition, with an RDD that has no rows to give but a preferred location for each partition; the pair has
that location.  It is a preference only: if the executor is busy or gone, the task runs on another one.

Spark can pair rows with those of another RDD if it is given a function of Java or Scala.  Weft brings no such code;
`DebugEvaluatorFactory` is the one in Spark that passes on the rows of the first of two RDDs as they are, and counts
them.  It is not part of Spark's public face: where it is missing, tasks run anywhere, as they did before.

What must hold: on one machine nothing of this is done; a batch asks the JVM once who is there, and no job is run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import DataFrame

from weft.host.homes import assign


class Homes:
    """The homes of workers on the executors of a cluster."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._spark: Any = None if is_one_machine(context.master) else context._jsc.sc()
        self._known: dict[int, tuple[tuple[str, ...], Any]] = {}
        """Number of workers -> their homes, and the RDD that says so."""
        self._hosts: dict[str, str] = {}
        """Executors that live -> their hosts."""
        if self._spark is not None:
            self._prepare()

    def _prepare(self) -> None:
        jvm: Any = self._context._jvm
        try:
            none = self._context._gateway.new_array(
                getattr(jvm.org.apache.spark.sql.execution.debug, "package$SetAccumulator"), 0
            )
            factory = jvm.org.apache.spark.sql.execution.debug.DebugEvaluatorFactory
            self._first = factory(self._spark.longAccumulator(), 0, none, self._sequence([]))
        except (Py4JError, TypeError, AttributeError):
            self._spark = None

    def seek(self, frame: DataFrame, workers: int) -> DataFrame:
        """The same rows; partition p is preferably worked on where worker p is at home."""
        places = self._places(workers) if self._spark is not None else None
        if places is None:
            return frame
        rows = frame._jdf.queryExecution().toRdd()
        paired = rows.zipPartitionsWithEvaluator(places, self._first, rows.elementClassTag())
        session = frame.sparkSession
        made = session._jsparkSession.internalCreateDataFrame(paired, frame._jdf.schema(), False)
        return DataFrame(made, session)

    def _places(self, workers: int) -> Any:
        """An RDD with a preferred location for each worker; None if there are no executors yet."""
        live = frozenset(self._spark.getExecutorIds().mkString(" ").split())
        if live != self._hosts.keys():
            self._hosts = {name: host for name, host in self._read_hosts() if name in live}
        if not self._hosts:
            return None
        before, places = self._known.get(workers, ((), None))
        homes = assign(before, sorted(self._hosts), workers)
        if homes != before:
            places = self._locate([f"executor_{self._hosts[home]}_{home}" for home in homes])
            self._known[workers] = homes, places
        return places

    def _read_hosts(self) -> Iterator[tuple[str, str]]:
        """Executors and their hosts, as far as Spark has noted them; `getExecutorIds` knows them sooner."""
        found = self._spark.statusStore().executorList(True)
        for at in range(found.size()):
            yield found.apply(at).id(), found.apply(at).hostPort().rpartition(":")[0]

    def _locate(self, locations: list[str]) -> Any:
        jvm: Any = self._context._jvm
        pairs = [jvm.scala.Tuple2(place, self._sequence([place])) for place in locations]
        kind = getattr(jvm.scala.reflect, "ClassTag$").__getattr__("MODULE$").AnyRef()
        return self._spark.makeRDD(self._sequence(pairs), kind)

    def _sequence(self, items: list[Any]) -> Any:
        jvm: Any = self._context._jvm
        found = jvm.java.util.ArrayList()
        for item in items:
            found.add(item)
        return jvm.org.apache.spark.api.python.PythonUtils.toSeq(found)


def is_one_machine(master: str) -> bool:
    """Whether all tasks run in processes of this machine, beside the driver."""
    return master == "local" or master.startswith("local[")
