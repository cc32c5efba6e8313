"""Queries of Nexmark and TPC-H that Weft can answer, as it takes them.

What must hold: the text is the published query but for what `docs/queries.md` says of it.  DuckDB answers the same
text, except where Nexmark has windows of event time: there `IN_DUCKDB` says the same in DuckDB's own words.
Times of Nexmark are milliseconds, as `bench.nexmark` makes them; a day is 86,400,000 of them.
"""

from __future__ import annotations

from collections.abc import Mapping

RANKS = {1: "{} < 10000", 2: "{} >= 10000 AND {} < 1000000", 3: "{} >= 1000000"}


def _by_rank(what: str, name: str) -> str:
    """A count for each of the three ranks of prices."""
    parts = ((rank, where.format("b_price", "b_price")) for rank, where in RANKS.items())
    return ", ".join(f"COUNT({what}) FILTER (WHERE {where}) AS rank{rank}_{name}" for rank, where in parts)


CHANNEL = "nullif(regexp_extract(b_url, '(&|^)channel_id=([^&]*)', 2), '')"
DAY = "b_ts - b_ts % 86400000"
STATISTICS = f"""
       COUNT(*) AS total_bids, {_by_rank("*", "bids")},
       COUNT(DISTINCT b_bidder) AS total_bidders, {_by_rank("DISTINCT b_bidder", "bidders")},
       COUNT(DISTINCT b_auction) AS total_auctions, {_by_rank("DISTINCT b_auction", "auctions")}"""

COUNTED = """
  SELECT b_auction, COUNT(*) AS num, window.start AS starttime, window.end AS endtime
  FROM bid
  GROUP BY b_auction, window(b_ts, '10 seconds', '2 seconds')"""
HIGHEST = """
  SELECT MAX(b_price) AS maxprice, epoch_ms(window.end) AS until
  FROM bid
  GROUP BY window(b_ts, '10 seconds')"""

WINNING = """
  SELECT a_id, a_item, a_reserve, a_ts, a_expires, a_seller, a_category, b_bidder, b_price AS final, b_ts AS sold
  FROM (
    SELECT auction.*, b_bidder, b_price, b_ts,
           ROW_NUMBER() OVER (PARTITION BY a_id ORDER BY b_price DESC, b_ts, b_bidder) AS place
    FROM auction
    JOIN bid ON a_id = b_auction AND b_ts BETWEEN a_ts AND a_expires) AS b
  WHERE place <= 1"""

NEXMARK: Mapping[str, str] = {
    "q0": "SELECT b_auction, b_bidder, b_price, b_channel, b_ts FROM bid",
    "q1": "SELECT b_auction, b_bidder, 0.908 * b_price AS price, b_ts FROM bid",
    "q2": "SELECT b_auction, b_price FROM bid WHERE b_auction % 123 = 0",
    "q3": """
SELECT p_name, p_city, p_state, a_id
FROM auction
JOIN person ON a_seller = p_id
WHERE a_category = 10 AND p_state IN ('OR', 'ID', 'CA')""",
    "q4": """
SELECT a_category, AVG(final) AS average
FROM (
  SELECT a_id, a_category, MAX(b_price) AS final
  FROM auction
  JOIN bid ON a_id = b_auction AND b_ts BETWEEN a_ts AND a_expires
  GROUP BY a_id, a_category) AS q
GROUP BY a_category""",
    "q5": f"""
SELECT auction_bids.b_auction, auction_bids.num
FROM ({COUNTED}) AS auction_bids
JOIN (SELECT MAX(num) AS maxn, starttime, endtime FROM ({COUNTED}) AS bids GROUP BY starttime, endtime) AS max_bids
  ON auction_bids.starttime = max_bids.starttime AND auction_bids.endtime = max_bids.endtime AND num >= maxn""",
    "q6": f"""
WITH sale AS (
  SELECT a_seller, final, ROW_NUMBER() OVER (PARTITION BY a_seller ORDER BY sold, a_id) AS n FROM ({WINNING}) AS won)
SELECT this.a_seller, this.n, AVG(that.final) AS average
FROM sale AS this
JOIN sale AS that ON that.a_seller = this.a_seller AND that.n BETWEEN this.n - 10 AND this.n
GROUP BY this.a_seller, this.n""",
    "q7": f"""
SELECT b_auction, b_price, b_bidder, b_ts
FROM bid
JOIN ({HIGHEST}) AS b1
  ON b_price = maxprice AND b_ts BETWEEN until - 10000 AND until""",
    "q8": """
SELECT DISTINCT p_id, p_name, p_ts - p_ts % 10000 AS starttime
FROM person
JOIN auction ON p_id = a_seller AND p_ts - p_ts % 10000 = a_ts - a_ts % 10000""",
    "q9": WINNING,
    "q10": """
SELECT b_auction, b_bidder, b_price, b_ts, CAST(make_timestamp_ms(b_ts) AS DATE) AS day,
       b_ts % 86400000 // 60000 AS minute
FROM bid""",
    "q11": """
WITH moment AS (
  SELECT b_bidder, b_ts, COUNT(*) AS many, ROW_NUMBER() OVER (PARTITION BY b_bidder ORDER BY b_ts) AS n
  FROM bid
  GROUP BY b_bidder, b_ts),
first AS (
  SELECT m.b_bidder, m.b_ts AS began
  FROM moment AS m LEFT JOIN moment AS p ON p.b_bidder = m.b_bidder AND p.n = m.n - 1
  WHERE p.b_ts IS NULL OR p.b_ts < m.b_ts - 10000),
placed AS (
  SELECT m.b_bidder, m.b_ts, m.many, MAX(began) AS began
  FROM moment AS m
  JOIN first AS f ON f.b_bidder = m.b_bidder AND f.began <= m.b_ts
  GROUP BY m.b_bidder, m.b_ts, m.many)
SELECT b_bidder, CAST(SUM(many) AS BIGINT) AS bid_count, began AS starttime, MAX(b_ts) + 10000 AS endtime
FROM placed
GROUP BY b_bidder, began""",
    "q12": """
SELECT b_bidder, COUNT(*) AS bid_count, window.start AS starttime, window.end AS endtime
FROM bid
GROUP BY b_bidder, window(b_ts, '10 seconds')""",
    "q13": """
SELECT b_auction, b_bidder, b_price, b_ts, s_value
FROM bid
JOIN side_input ON b_auction % 10000 = s_key""",
    "q14": """
SELECT b_auction, b_bidder, 0.908 * b_price AS price,
       CASE WHEN b_ts % 86400000 >= 28800000 AND b_ts % 86400000 <= 64800000 THEN 'dayTime'
            WHEN b_ts % 86400000 <= 21600000 OR b_ts % 86400000 >= 72000000 THEN 'nightTime'
            ELSE 'otherTime' END AS bid_time_type,
       b_ts, length(b_channel) - length(replace(b_channel, 'c', '')) AS c_counts
FROM bid
WHERE 0.908 * b_price > 1000000 AND 0.908 * b_price < 50000000""",
    "q15": f"SELECT {DAY} AS day, {STATISTICS}\nFROM bid\nGROUP BY {DAY}",
    "q16": f"""
SELECT b_channel, {DAY} AS day, MAX(b_ts % 86400000 - b_ts % 60000) AS minute, {STATISTICS}
FROM bid
GROUP BY b_channel, {DAY}""",
    "q17": f"""
SELECT b_auction, {DAY} AS day, COUNT(*) AS total_bids, {_by_rank("*", "bids")},
       MIN(b_price) AS min_price, MAX(b_price) AS max_price, AVG(b_price) AS avg_price, SUM(b_price) AS sum_price
FROM bid
GROUP BY b_auction, {DAY}""",
    "q18": """
SELECT b_auction, b_bidder, b_price, b_channel, b_ts
FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY b_bidder, b_auction ORDER BY b_ts DESC, b_price, b_channel, b_url) AS place
  FROM bid) AS b
WHERE place <= 1""",
    "q19": """
SELECT *
FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY b_auction ORDER BY b_price DESC, b_ts, b_bidder) AS place
  FROM bid) AS b
WHERE place <= 10""",
    "q20": """
SELECT b_auction, b_bidder, b_price, b_channel, b_ts, a_item, a_reserve, a_seller, a_expires, a_category
FROM bid
JOIN auction ON b_auction = a_id
WHERE a_category = 10""",
    "q21": f"""
SELECT b_auction, b_bidder, b_price, b_channel,
       CASE WHEN lower(b_channel) = 'apple' THEN '0' WHEN lower(b_channel) = 'google' THEN '1'
            WHEN lower(b_channel) = 'facebook' THEN '2' WHEN lower(b_channel) = 'baidu' THEN '3'
            ELSE {CHANNEL} END AS channel_id
FROM bid
WHERE {CHANNEL} IS NOT NULL OR lower(b_channel) IN ('apple', 'google', 'facebook', 'baidu')""",
    "q22": """
SELECT b_auction, b_bidder, b_price, b_channel, split_part(b_url, '/', 4) AS dir1, split_part(b_url, '/', 5) AS dir2,
       split_part(b_url, '/', 6) AS dir3
FROM bid""",
}


def _windows(columns: str, length: int, slide: int, group: str) -> str:
    """Bids by the windows of event time that hold them."""
    first = f"b_ts - b_ts % {slide}"
    shown = columns.format(start="make_timestamp(1000 * w)", end=f"make_timestamp(1000 * (w + {length}))")
    starts = f"unnest(generate_series({first} - {length - slide}, {first}, {slide}))"
    return f"SELECT {shown} FROM (SELECT *, {starts} AS w FROM bid) GROUP BY {group}"


IN_DUCKDB: Mapping[str, str] = {
    "q5": NEXMARK["q5"].replace(
        COUNTED,
        _windows("b_auction, COUNT(*) AS num, {start} AS starttime, {end} AS endtime", 10_000, 2_000, "b_auction, w"),
    ),
    "q7": NEXMARK["q7"].replace(HIGHEST, _windows("MAX(b_price) AS maxprice, w + 10000 AS until", 10_000, 10_000, "w")),
    "q12": _windows(
        "b_bidder, COUNT(*) AS bid_count, {start} AS starttime, {end} AS endtime", 10_000, 10_000, "b_bidder, w"
    ),
}

TPCH: Mapping[str, str] = {
    "Q1": """
SELECT l_returnflag, l_linestatus, SUM(l_quantity) AS sum_qty, SUM(l_extendedprice) AS sum_base_price,
       SUM(l_extendedprice * (1 - l_discount)) AS sum_disc_price,
       SUM(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge,
       AVG(l_quantity) AS avg_qty, AVG(l_extendedprice) AS avg_price, AVG(l_discount) AS avg_disc,
       COUNT(*) AS count_order
FROM lineitem
WHERE l_shipdate <= DATE '1998-12-01' - INTERVAL '90' DAY
GROUP BY l_returnflag, l_linestatus""",
    "Q3": """
SELECT l_orderkey, SUM(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority
FROM customer, orders, lineitem
WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey
  AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'
GROUP BY l_orderkey, o_orderdate, o_shippriority
ORDER BY revenue DESC, o_orderdate, l_orderkey
LIMIT 10""",
    "Q5": """
SELECT n_name, SUM(l_extendedprice * (1 - l_discount)) AS revenue
FROM customer, orders, lineitem, supplier, nation, region
WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey AND c_nationkey = s_nationkey
  AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'ASIA'
  AND o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1994-01-01' + INTERVAL '1' YEAR
GROUP BY n_name""",
    "Q6": """
SELECT SUM(l_extendedprice * l_discount) AS revenue
FROM lineitem
WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1994-01-01' + INTERVAL '1' YEAR
  AND l_discount BETWEEN 0.06 - 0.01 AND 0.06 + 0.01 AND l_quantity < 24""",
    "Q7": """
SELECT supp_nation, cust_nation, l_year, SUM(volume) AS revenue
FROM (SELECT n1.n_name AS supp_nation, n2.n_name AS cust_nation, EXTRACT(year FROM l_shipdate) AS l_year,
             l_extendedprice * (1 - l_discount) AS volume
      FROM supplier, lineitem, orders, customer, nation n1, nation n2
      WHERE s_suppkey = l_suppkey AND o_orderkey = l_orderkey AND c_custkey = o_custkey
        AND s_nationkey = n1.n_nationkey AND c_nationkey = n2.n_nationkey
        AND ((n1.n_name = 'FRANCE' AND n2.n_name = 'GERMANY') OR (n1.n_name = 'GERMANY' AND n2.n_name = 'FRANCE'))
        AND l_shipdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31') AS shipping
GROUP BY supp_nation, cust_nation, l_year""",
    "Q8": """
SELECT o_year, SUM(CASE WHEN nation = 'BRAZIL' THEN volume ELSE 0 END) / SUM(volume) AS mkt_share
FROM (SELECT EXTRACT(year FROM o_orderdate) AS o_year, l_extendedprice * (1 - l_discount) AS volume,
             n2.n_name AS nation
      FROM part, supplier, lineitem, orders, customer, nation n1, nation n2, region
      WHERE p_partkey = l_partkey AND s_suppkey = l_suppkey AND l_orderkey = o_orderkey AND o_custkey = c_custkey
        AND c_nationkey = n1.n_nationkey AND n1.n_regionkey = r_regionkey AND r_name = 'AMERICA'
        AND s_nationkey = n2.n_nationkey AND o_orderdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'
        AND p_type = 'ECONOMY ANODIZED STEEL') AS all_nations
GROUP BY o_year""",
    "Q9": """
SELECT nation, o_year, SUM(amount) AS sum_profit
FROM (SELECT n_name AS nation, EXTRACT(year FROM o_orderdate) AS o_year,
             l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity AS amount
      FROM part, supplier, lineitem, partsupp, orders, nation
      WHERE s_suppkey = l_suppkey AND ps_suppkey = l_suppkey AND ps_partkey = l_partkey AND p_partkey = l_partkey
        AND o_orderkey = l_orderkey AND s_nationkey = n_nationkey AND p_name LIKE '%green%') AS profit
GROUP BY nation, o_year""",
    "Q10": """
SELECT c_custkey, c_name, SUM(l_extendedprice * (1 - l_discount)) AS revenue, c_acctbal, n_name, c_address, c_phone,
       c_comment
FROM customer, orders, lineitem, nation
WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND o_orderdate >= DATE '1993-10-01'
  AND o_orderdate < DATE '1993-10-01' + INTERVAL '3' MONTH AND l_returnflag = 'R' AND c_nationkey = n_nationkey
GROUP BY c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment
ORDER BY revenue DESC, c_custkey
LIMIT 20""",
    "Q12": """
SELECT l_shipmode,
       SUM(CASE WHEN o_orderpriority = '1-URGENT' OR o_orderpriority = '2-HIGH' THEN 1 ELSE 0 END) AS high_line_count,
       SUM(CASE WHEN o_orderpriority <> '1-URGENT' AND o_orderpriority <> '2-HIGH' THEN 1 ELSE 0 END) AS low_line_count
FROM orders, lineitem
WHERE o_orderkey = l_orderkey AND l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate
  AND l_shipdate < l_commitdate AND l_receiptdate >= DATE '1994-01-01'
  AND l_receiptdate < DATE '1994-01-01' + INTERVAL '1' YEAR
GROUP BY l_shipmode""",
    "Q14": """
SELECT 100.00 * SUM(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (1 - l_discount) ELSE 0 END)
       / SUM(l_extendedprice * (1 - l_discount)) AS promo_revenue
FROM lineitem, part
WHERE l_partkey = p_partkey AND l_shipdate >= DATE '1995-09-01'
  AND l_shipdate < DATE '1995-09-01' + INTERVAL '1' MONTH""",
    "Q19": """
SELECT SUM(l_extendedprice * (1 - l_discount)) AS revenue
FROM lineitem, part
WHERE (p_partkey = l_partkey AND p_brand = 'Brand#12' AND p_container IN ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG')
       AND l_quantity >= 1 AND l_quantity <= 1 + 10 AND p_size BETWEEN 1 AND 5
       AND l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON')
   OR (p_partkey = l_partkey AND p_brand = 'Brand#23'
       AND p_container IN ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK')
       AND l_quantity >= 10 AND l_quantity <= 10 + 10 AND p_size BETWEEN 1 AND 10
       AND l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON')
   OR (p_partkey = l_partkey AND p_brand = 'Brand#34' AND p_container IN ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG')
       AND l_quantity >= 20 AND l_quantity <= 20 + 10 AND p_size BETWEEN 1 AND 15
       AND l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON')""",
    "Q2": """
SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
FROM part, supplier, partsupp, nation, region
WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey AND p_size = 15 AND p_type LIKE '%BRASS'
  AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'EUROPE'
  AND ps_supplycost = (SELECT MIN(ps_supplycost) FROM partsupp, supplier, nation, region
                       WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey AND s_nationkey = n_nationkey
                         AND n_regionkey = r_regionkey AND r_name = 'EUROPE')
ORDER BY s_acctbal DESC, n_name, s_name, p_partkey
LIMIT 100""",
    "Q4": """
SELECT o_orderpriority, COUNT(*) AS order_count
FROM orders
WHERE o_orderdate >= DATE '1993-07-01' AND o_orderdate < DATE '1993-07-01' + INTERVAL '3' MONTH
  AND EXISTS (SELECT * FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
GROUP BY o_orderpriority""",
    "Q11": """
SELECT ps_partkey, SUM(ps_supplycost * ps_availqty) AS value
FROM partsupp, supplier, nation
WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = 'GERMANY'
GROUP BY ps_partkey
HAVING SUM(ps_supplycost * ps_availqty) > (
    SELECT SUM(ps_supplycost * ps_availqty) * 0.0001 FROM partsupp, supplier, nation
    WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = 'GERMANY')""",
    "Q13": """
SELECT c_count, COUNT(*) AS custdist
FROM (SELECT c_custkey, COUNT(o_orderkey)
      FROM customer LEFT OUTER JOIN orders ON c_custkey = o_custkey AND o_comment NOT LIKE '%special%requests%'
      GROUP BY c_custkey) AS c_orders (c_custkey, c_count)
GROUP BY c_count""",
    "Q15": """
WITH revenue AS (
    SELECT l_suppkey AS supplier_no, SUM(l_extendedprice * (1 - l_discount)) AS total_revenue FROM lineitem
    WHERE l_shipdate >= DATE '1996-01-01' AND l_shipdate < DATE '1996-01-01' + INTERVAL '3' MONTH GROUP BY l_suppkey)
SELECT s_suppkey, s_name, s_address, s_phone, total_revenue
FROM supplier, revenue
WHERE s_suppkey = supplier_no AND total_revenue = (SELECT MAX(total_revenue) FROM revenue)""",
    "Q16": """
SELECT p_brand, p_type, p_size, COUNT(DISTINCT ps_suppkey) AS supplier_cnt
FROM partsupp, part
WHERE p_partkey = ps_partkey AND p_brand <> 'Brand#45' AND p_type NOT LIKE 'MEDIUM POLISHED%'
  AND p_size IN (49, 14, 23, 45, 19, 3, 36, 9)
  AND ps_suppkey NOT IN (SELECT s_suppkey FROM supplier WHERE s_comment LIKE '%Customer%Complaints%')
GROUP BY p_brand, p_type, p_size""",
    "Q17": """
SELECT SUM(l_extendedprice) / 7.0 AS avg_yearly
FROM lineitem, part
WHERE p_partkey = l_partkey AND p_brand = 'Brand#23' AND p_container = 'MED BOX'
  AND l_quantity < (SELECT 0.2 * AVG(l_quantity) FROM lineitem WHERE l_partkey = p_partkey)""",
    "Q18": """
SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, SUM(l_quantity) AS quantity
FROM customer, orders, lineitem
WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem GROUP BY l_orderkey HAVING SUM(l_quantity) > 300)
  AND c_custkey = o_custkey AND o_orderkey = l_orderkey
GROUP BY c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
ORDER BY o_totalprice DESC, o_orderdate, o_orderkey
LIMIT 100""",
    "Q20": """
SELECT s_name, s_address
FROM supplier, nation
WHERE s_suppkey IN (
        SELECT ps_suppkey FROM partsupp
        WHERE ps_partkey IN (SELECT p_partkey FROM part WHERE p_name LIKE 'forest%')
          AND ps_availqty > (SELECT 0.5 * SUM(l_quantity) FROM lineitem
                             WHERE l_partkey = ps_partkey AND l_suppkey = ps_suppkey
                               AND l_shipdate >= DATE '1994-01-01'
                               AND l_shipdate < DATE '1994-01-01' + INTERVAL '1' YEAR))
  AND s_nationkey = n_nationkey AND n_name = 'CANADA'""",
    "Q21": """
SELECT s_name, COUNT(*) AS numwait
FROM supplier, lineitem l1, orders, nation
WHERE s_suppkey = l1.l_suppkey AND o_orderkey = l1.l_orderkey AND o_orderstatus = 'F'
  AND l1.l_receiptdate > l1.l_commitdate
  AND EXISTS (SELECT * FROM lineitem l2 WHERE l2.l_orderkey = l1.l_orderkey AND l2.l_suppkey <> l1.l_suppkey)
  AND NOT EXISTS (SELECT * FROM lineitem l3 WHERE l3.l_orderkey = l1.l_orderkey AND l3.l_suppkey <> l1.l_suppkey
                  AND l3.l_receiptdate > l3.l_commitdate)
  AND s_nationkey = n_nationkey AND n_name = 'SAUDI ARABIA'
GROUP BY s_name
ORDER BY numwait DESC, s_name
LIMIT 100""",
    "Q22": """
SELECT cntrycode, COUNT(*) AS numcust, SUM(c_acctbal) AS totacctbal
FROM (SELECT SUBSTRING(c_phone FROM 1 FOR 2) AS cntrycode, c_acctbal
      FROM customer
      WHERE SUBSTRING(c_phone FROM 1 FOR 2) IN ('13', '31', '23', '29', '30', '18', '17')
        AND c_acctbal > (SELECT AVG(c_acctbal) FROM customer WHERE c_acctbal > 0.00
                         AND SUBSTRING(c_phone FROM 1 FOR 2) IN ('13', '31', '23', '29', '30', '18', '17'))
        AND NOT EXISTS (SELECT * FROM orders WHERE o_custkey = c_custkey)) AS custsale
GROUP BY cntrycode""",
}
