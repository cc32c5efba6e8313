"""Nexmark's three streams from seeded numpy: persons, auctions and bids in the proportion 1 : 3 : 46.

Follows the published generator in what joins depend on: ids grow with time; three auctions in four are sold by the
hot seller, the newest person whose number is a multiple of 100; half of the bids go to the hot auction, found in the
same way; three bids in four come from the hot bidder, who is never the hot seller; the others are drawn from the
active ones: 1,000 persons, 100 auctions.  An auction is open for as long as the active ones take to pass, on average.
Categories are 10 to 14, ten thousand events a second.  Texts are short and drawn from lists; `extra` columns, which
only pad rows, are left out.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
PERSONS, AUCTIONS, BIDS = 1, 3, 46
ROUND = PERSONS + AUCTIONS + BIDS
RATE = 10
"""Events a millisecond."""
HOT = 100
ACTIVE_PERSONS, ACTIVE_AUCTIONS = 1_000, 100
STATES = np.array(["AZ", "CA", "ID", "OR", "WA", "WY"])
CITIES = np.array(["Phoenix", "Los Angeles", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne"])
NAMES = np.array([f"{first} {last}" for first in ("Peter", "Paul", "Kate", "Sarah") for last in ("Jones", "Smith")])
CHANNELS = np.array(["Google", "Facebook", "Baidu", "Apple"])
WINDOW = 10_000
"""Milliseconds of the tumbling window of q8."""


@dataclass(frozen=True, slots=True)
class Clock:
    """When which event of a kind happens: the kinds take turns within every round of fifty events."""

    first: int
    each: int

    def events(self, total: int) -> Ints:
        """The numbers of this kind's events among the first `total` ones."""
        rounds = np.arange(total // ROUND, dtype=np.int64)[:, None] * ROUND
        return (rounds + self.first + np.arange(self.each)).ravel()


def tables(events: int, seed: int, wanted: Collection[str] = ("person", "auction", "bid")) -> dict[str, pa.Table]:
    """The wanted streams, in order of time; the same seed gives the same rows."""
    makers = {"person": _persons, "auction": _auctions, "bid": _bids}
    return {
        name: make(np.random.default_rng([seed, number]), events)
        for number, (name, make) in enumerate(makers.items())
        if name in wanted
    }


def _persons(rng: np.random.Generator, events: int) -> pa.Table:
    at = Clock(0, PERSONS).events(events)
    size = len(at)
    return pa.table(
        {
            "p_id": np.arange(size),
            "p_name": NAMES[rng.integers(len(NAMES), size=size)],
            "p_city": CITIES[rng.integers(len(CITIES), size=size)],
            "p_state": STATES[rng.integers(len(STATES), size=size)],
            "p_ts": at // RATE,
            "p_window": at // RATE // WINDOW,
        }
    )


def _auctions(rng: np.random.Generator, events: int) -> pa.Table:
    at = Clock(PERSONS, AUCTIONS).events(events)
    size = len(at)
    newest = at // ROUND
    seller = _mostly(rng, 0.75, newest // HOT * HOT, _active(rng, newest, ACTIVE_PERSONS))
    ahead = ACTIVE_AUCTIONS * ROUND // AUCTIONS // RATE
    return pa.table(
        {
            "a_id": np.arange(size),
            "a_item": CHANNELS[rng.integers(len(CHANNELS), size=size)],
            "a_reserve": rng.integers(100, 10_000, size=size),
            "a_ts": at // RATE,
            "a_expires": at // RATE + 1 + rng.integers(2 * ahead, size=size),
            "a_seller": seller,
            "a_category": rng.integers(10, 15, size=size),
            "a_window": at // RATE // WINDOW,
        }
    )


def _bids(rng: np.random.Generator, events: int) -> pa.Table:
    at = Clock(PERSONS + AUCTIONS, BIDS).events(events)
    size = len(at)
    person, auction = at // ROUND, at // ROUND * AUCTIONS + AUCTIONS - 1
    hot_bidder = np.minimum(person // HOT * HOT + 1, person)
    return pa.table(
        {
            "b_auction": _mostly(rng, 0.5, auction // HOT * HOT, _active(rng, auction, ACTIVE_AUCTIONS)),
            "b_bidder": _mostly(rng, 0.75, hot_bidder, _active(rng, person, ACTIVE_PERSONS)),
            "b_price": np.rint(10 ** (rng.random(size) * 6) * 100).astype(np.int64),
            "b_channel": CHANNELS[rng.integers(len(CHANNELS), size=size)],
            "b_ts": at // RATE,
        }
    )


def _active(rng: np.random.Generator, newest: Ints, count: int) -> Ints:
    """One of the newest `count` ids."""
    found: Ints = newest - rng.integers(0, np.minimum(newest + 1, count))
    return found


def _mostly(rng: np.random.Generator, share: float, hot: Ints, others: Ints) -> Ints:
    return np.where(rng.random(len(hot)) < share, hot, others)
