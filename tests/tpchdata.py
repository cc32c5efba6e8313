"""A small world of TPC-H: random rows of all eight tables in which every condition of the queries is met now and then.

Domains are far smaller than the published ones, so that a few thousand rows have answers; types are the published ones.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa

CUSTOMERS, ORDERS, LINES, PARTS, SUPPLIERS = 60, 400, 1_600, 40, 12
NATIONS = ["FRANCE", "GERMANY", "BRAZIL", "JAPAN", "CHINA", "SAUDI ARABIA", "KENYA", "CANADA"]
REGIONS = ["EUROPE", "EUROPE", "AMERICA", "ASIA", "ASIA", "MIDDLE EAST", "AFRICA", "AMERICA"]
BRANDS = {"Brand#12": "SM BOX", "Brand#23": "MED BOX", "Brand#34": "LG CASE"}
FIRST = datetime.date(1993, 7, 1)
Rng = np.random.Generator


def tables(seed: int = 7) -> dict[str, pa.Table]:
    """All eight; the same seed gives the same rows."""
    rng = np.random.default_rng(seed)
    places = sorted(set(REGIONS))
    nation = {"n_nationkey": range(8), "n_name": NATIONS, "n_regionkey": [places.index(r) for r in REGIONS]}
    return {
        "region": pa.table({"r_regionkey": range(len(places)), "r_name": places}),
        "nation": pa.table(nation),
        "supplier": _suppliers(rng),
        "customer": _customers(rng),
        "part": _parts(rng),
        "partsupp": _pairs(rng),
        "orders": _orders(rng),
        "lineitem": _lines(rng),
    }


def _suppliers(rng: Rng) -> pa.Table:
    keys = range(1, SUPPLIERS + 1)
    return pa.table(
        {
            "s_suppkey": keys,
            "s_name": [f"Supplier#{k}" for k in keys],
            "s_address": [f"{k} Street" for k in keys],
            "s_nationkey": rng.integers(0, 8, SUPPLIERS),
            "s_phone": [f"20-{k}" for k in keys],
            "s_acctbal": _money(rng, -100_000, 1_000_000, SUPPLIERS),
            "s_comment": ["slow Customer has Complaints" if k % 5 == 0 else "even" for k in keys],
        }
    )


def _customers(rng: Rng) -> pa.Table:
    keys = range(1, CUSTOMERS + 1)
    return pa.table(
        {
            "c_custkey": keys,
            "c_name": [f"Customer#{k}" for k in keys],
            "c_address": [f"{k} Road" for k in keys],
            "c_nationkey": rng.integers(0, 8, CUSTOMERS),
            "c_phone": [f"{13 + k % 3 * 5}-{k}" for k in keys],
            "c_acctbal": _money(rng, -100_000, 1_000_000, CUSTOMERS),
            "c_mktsegment": _one_of(rng, ["BUILDING", "MACHINERY"], CUSTOMERS),
            "c_comment": _one_of(rng, ["quick", "even"], CUSTOMERS),
        }
    )


def _parts(rng: Rng) -> pa.Table:
    brands = _one_of(rng, [*BRANDS], PARTS)
    return pa.table(
        {
            "p_partkey": range(1, PARTS + 1),
            "p_name": _one_of(rng, ["dark green lace", "red rose", "forest green"], PARTS),
            "p_mfgr": [f"Manufacturer#{k % 3}" for k in range(PARTS)],
            "p_brand": brands,
            "p_type": _one_of(rng, ["ECONOMY ANODIZED STEEL", "PROMO BRUSHED TIN", "SMALL BRASS"], PARTS),
            "p_size": [int(size) if size < 5 else (9, 14, 15)[size - 5] for size in rng.integers(1, 8, PARTS)],
            "p_container": [BRANDS[brand] for brand in brands],
        }
    )


def _pairs(rng: Rng) -> pa.Table:
    """Half of all parts and suppliers."""
    pairs = [(p, s) for p in range(1, PARTS + 1) for s in range(1, SUPPLIERS + 1) if (p + s) % 2]
    parts, suppliers = zip(*pairs, strict=True)
    cost = _money(rng, 100, 100_000, len(pairs))
    stock = rng.integers(1, 40, len(pairs))
    return pa.table({"ps_partkey": parts, "ps_suppkey": suppliers, "ps_supplycost": cost, "ps_availqty": stock})


def _orders(rng: Rng) -> pa.Table:
    return pa.table(
        {
            "o_orderkey": range(1, ORDERS + 1),
            "o_custkey": rng.integers(1, CUSTOMERS - 5, ORDERS),
            "o_orderstatus": _one_of(rng, ["F", "O"], ORDERS),
            "o_totalprice": _money(rng, 90_000, 10_000_000, ORDERS),
            "o_orderdate": _days(rng, [FIRST] * ORDERS, 1_200),
            "o_orderpriority": _one_of(rng, ["1-URGENT", "2-HIGH", "3-MEDIUM"], ORDERS),
            "o_shippriority": pa.array([0] * ORDERS, pa.int32()),
            "o_comment": _one_of(rng, ["special and other requests", "even", "quick"], ORDERS),
        }
    )


def _lines(rng: Rng) -> pa.Table:
    shipped = _days(rng, [FIRST] * LINES, 1_300)
    committed = _days(rng, shipped, 30)
    return pa.table(
        {
            "l_orderkey": rng.integers(1, ORDERS + 1, LINES),
            "l_partkey": rng.integers(1, PARTS + 1, LINES),
            "l_suppkey": rng.integers(1, SUPPLIERS + 1, LINES),
            "l_quantity": _money(rng, 1, 80, LINES, 100),
            "l_extendedprice": _money(rng, 90_000, 10_000_000, LINES),
            "l_discount": _money(rng, 0, 10, LINES),
            "l_tax": _money(rng, 0, 8, LINES),
            "l_returnflag": _one_of(rng, ["R", "A", "N"], LINES),
            "l_linestatus": _one_of(rng, ["O", "F"], LINES),
            "l_shipdate": shipped,
            "l_commitdate": committed,
            "l_receiptdate": _days(rng, shipped, 40),
            "l_shipinstruct": _one_of(rng, ["DELIVER IN PERSON", "NONE"], LINES),
            "l_shipmode": _one_of(rng, ["AIR", "AIR REG", "MAIL", "SHIP"], LINES),
        }
    )


def _one_of(rng: Rng, values: Sequence[str], rows: int) -> list[str]:
    return [values[i] for i in rng.integers(0, len(values), rows)]


def _money(rng: Rng, low: int, high: int, rows: int, each: int = 1) -> pa.Array:
    """Some hundredths."""
    cents = rng.integers(low, high + 1, rows) * each
    return pa.array([Decimal(int(c)) / 100 for c in cents], pa.decimal128(15, 2))


def _days(rng: Rng, after: Sequence[datetime.date], most: int) -> list[datetime.date]:
    later = rng.integers(1, most, len(after))
    return [day + datetime.timedelta(days=int(n)) for day, n in zip(after, later, strict=True)]
