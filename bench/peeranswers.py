"""What a system has written of an aggregate, as the rows that stand at the end.

Every system writes changes as it can: Weft and Spark the changed groups of each batch, Flink a log of rows that come
and go, Pathway rows with a difference, DuckDB the answer.  Rows of the join alone are put into groups here.
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from bench.peersystems.job import Join


def settled(names: Sequence[str], join: Join) -> str:
    """A relation, in parentheses, with the outputs of the join."""
    if names[0].endswith(".csv"):
        return _added(f"read_csv({names}, header = true)", join)
    if not is_parquet(names[0]):
        return _added(_log(names, join), join)
    relation = f"read_parquet({names})"
    columns = _columns(relation)
    if not set(join.outputs) <= columns:
        return f"(SELECT {_list(join)} FROM {relation} GROUP BY {', '.join(join.select)})"
    return _last(relation, join, columns) if "#batch" in columns else relation


def _list(join: Join) -> str:
    return ", ".join((*join.select, *(measure.sql for measure in join.measures)))


def _last(relation: str, join: Join, columns: set[str]) -> str:
    """The newest row of each group."""
    keys, gone = ", ".join(join.select), "\"#op\" NOT IN ('delete', 'final')" if "#op" in columns else "true"
    newest = f'row_number() OVER (PARTITION BY {keys} ORDER BY "#batch" DESC) = 1'
    return f"(SELECT {', '.join(join.outputs)} FROM {relation} WHERE {gone} QUALIFY {newest})"


def _added(relation: str, join: Join) -> str:
    """The rows that have come more often than they have gone."""
    outputs = ", ".join(join.outputs)
    return f"(SELECT {outputs} FROM {relation} GROUP BY {outputs} HAVING sum(diff) > 0)"


def _log(names: Sequence[str], join: Join) -> str:
    """Debezium's JSON: a row that comes is under `after`, one that goes under `before`."""
    row = "STRUCT(" + ", ".join(f"{column} VARCHAR" for column in join.outputs) + ")"
    columns = f"{{before: '{row}', after: '{row}', op: 'VARCHAR'}}"
    rows = ", ".join(f"coalesce(after.{column}, before.{column}) AS {column}" for column in join.outputs)
    log = f"read_json({names}, format = 'newline_delimited', columns = {columns})"
    return f"(SELECT {rows}, CASE op WHEN 'c' THEN 1 ELSE -1 END AS diff FROM {log})"


def _columns(relation: str) -> set[str]:
    with duckdb.connect() as oracle:
        return {column[0] for column in oracle.execute(f"FROM {relation} LIMIT 0").description}


def is_parquet(name: str) -> bool:
    """By its first bytes."""
    with open(name, "rb") as file:
        return file.read(4) == b"PAR1"
