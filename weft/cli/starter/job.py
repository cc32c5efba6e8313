"""The same job as job.sql, in Python.  Run it: python job.py."""

import weft

s = weft.Session(checkpoint="state_py")  # delete this folder (and out_py/) to start from the beginning

# A stream is a folder of files, read in the order of their names.  `event_time` is the column that says when a row
# happened; `lateness` is how much older than the newest row a row may be and still count.
for name, time in {"orders": "ordered_at", "payments": "paid_at", "shipments": "shipped_at"}.items():
    s.stream(name, weft.read.csv(f"in/{name}"), event_time=time, lateness="10 minutes")

# Orders that were paid and shipped within half an hour.
shipped = s.query(
    "shipped",
    """
    SELECT o.order_id, o.customer, p.paid, s.carrier, s.shipped_at
    FROM orders o
    JOIN payments p  ON p.order_id = o.order_id
    JOIN shipments s ON s.order_id = o.order_id
    WITHIN INTERVAL '30' MINUTE
    """,
)
shipped.to_parquet("out_py/shipped")
shipped.to_memory()

print(s.explain())  # how it is planned
print(s.run())  # reads everything that is there now; s.start(every="1 second") goes on for ever
print(shipped.table().to_pandas())  # what this run has found
