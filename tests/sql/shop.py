"""The streams that the tests of SQL use."""

import pyarrow as pa

from weft.query.model import Stream
from weft.sql import FunctionSignature

TS = pa.timestamp("us")
STREAMS = {
    "customer": Stream(
        "customer", pa.schema([("c_custkey", pa.int64()), ("c_name", pa.large_string()), ("c_segment", pa.string())])
    ),
    "orders": Stream(
        "orders",
        pa.schema(
            [("o_orderkey", pa.int64()), ("o_custkey", pa.int64()), ("o_limit", pa.decimal128(12, 2)), ("o_ts", TS)]
        ),
        "o_ts",
    ),
    "lineitem": Stream(
        "lineitem",
        pa.schema([("l_orderkey", pa.int32()), ("l_partkey", pa.int64()), ("l_price", pa.float64()), ("l_ts", TS)]),
        "l_ts",
    ),
}
FUNCTIONS = {"distance": FunctionSignature("distance", pa.float64())}
