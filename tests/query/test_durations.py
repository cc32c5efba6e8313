"""Durations as users write them, and texts that are refused."""

from __future__ import annotations

import datetime as dt

import pytest

from weft.errors import QueryError
from weft.query.duration import format_duration, parse_duration


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("10 minutes", 600), ("1 hour 30 min", 5400), ("1.5 minutes", 90), ("90s", 90), ("2 Days", 172800), (5, 5)],
)
def test_durations_users_write(value: str | int, seconds: int) -> None:
    assert parse_duration(value) == seconds * 1_000_000


def test_other_durations() -> None:
    assert parse_duration(dt.timedelta(milliseconds=1)) == 1000
    assert parse_duration(0.5) == 500_000
    assert parse_duration("7 us") == 7
    assert format_duration(parse_duration("36 hours")) == "36 hours"
    assert format_duration(0) == "0 seconds"


@pytest.mark.parametrize(
    "value", ["", "ten minutes", "10", "1 month", "10 parsecs", "0.1 us", None, True, "5 minutes x"]
)
def test_what_is_no_duration(value: object) -> None:
    with pytest.raises(QueryError, match="is not a duration"):
        parse_duration(value)  # type: ignore[arg-type]
