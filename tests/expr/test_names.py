"""Names in rendered SQL are read by DuckDB as names."""

import duckdb

from weft.expr.render import quote_name


def test_every_keyword_of_duckdb_can_be_a_name() -> None:
    duck = duckdb.connect()
    for (word,) in duck.sql("SELECT keyword_name FROM duckdb_keywords()").fetchall():
        name = quote_name(word)
        text = f'SELECT CAST({name} AS BIGINT), {name}.{name} + 1 AS {name} FROM (SELECT 1 AS "{word}") AS {name}'
        assert duck.sql(text).fetchall() == [(1, 2)], word
