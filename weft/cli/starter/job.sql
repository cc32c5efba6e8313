-- A job of Weft.  Check its plan:  weft explain job.sql
-- Run it:                          weft run job.sql
-- Run it for ever:                 weft run job.sql --every "1 second" --watch
--
-- Run it again when new files have arrived in the folders under in/: only those are read.

-- State lives in this folder.  Delete it (and out/) to start from the beginning.
SET checkpoint = 'state';

-- A stream is a folder of files, read in the order of their names.
-- event_time   the column that says when a row happened
-- lateness     how much older than the newest row a row may be and still count
CREATE STREAM orders FROM CSV 'in/orders'
  WITH (event_time = 'ordered_at', lateness = '10 minutes');
CREATE STREAM payments FROM CSV 'in/payments'
  WITH (event_time = 'paid_at', lateness = '10 minutes');
CREATE STREAM shipments FROM CSV 'in/shipments'
  WITH (event_time = 'shipped_at', lateness = '10 minutes');

-- Orders that were paid and shipped.  WITHIN says how old a row may be and still find partners:
-- an order joins payments and shipments that come at most half an hour later.
CREATE QUERY shipped INTO PARQUET 'out/shipped' AS
  SELECT o.order_id, o.customer, p.paid, s.carrier, s.shipped_at
  FROM orders o
  JOIN payments p  ON p.order_id = o.order_id
  JOIN shipments s ON s.order_id = o.order_id
  WITHIN INTERVAL '30' MINUTE;

-- An aggregate: what each customer has paid.  The folder holds the table as it is after the last batch.
CREATE QUERY paid_by_customer INTO PARQUET 'out/paid_by_customer' WITH (mode = 'snapshot') AS
  SELECT o.customer, sum(p.paid) AS paid, count(*) AS payments
  FROM orders o
  JOIN payments p ON p.order_id = o.order_id
  GROUP BY o.customer;
