"""Pages as text for people.

A level is indented by two spaces.  A line starts with what it is about: query, store, on, wave, notice.  Estimates
start with ~; a measured number follows its estimate, with the ratio of the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.explain.pages import Page
from weft.explain.pages.candidates import CandidateNumbers, CandidatesOfQuery, CandidatesPage
from weft.explain.pages.chosen import ChosenPage, ChosenPlan, HopFacts, TreeNode
from weft.explain.pages.figure import Figure
from weft.explain.pages.parsed import ParsedPage, WrittenQuery
from weft.explain.pages.resolved import KnownGroups, KnownQuery, KnownRelation, ResolvedPage
from weft.explain.pages.sharing import ProbeTree, SharingFacts, TogetherFacts
from weft.explain.pages.topology import KeepFacts, ProbeFacts, QueryFacts, StoreFacts, SummaryFacts, TopologyPage
from weft.explain.words import ROUTES, count, duration, join_names, number, place, share, table
from weft.observe.notice import Notice

GLOSSARY = "words: docs/glossary.md"
"""Where the words of plans are explained."""


def text(page: Page) -> str:
    """The page as lines."""
    match page:
        case ParsedPage():
            blocks = [_query_as_written(query) for query in page.queries]
        case ResolvedPage():
            blocks = [_query_as_known(query) for query in page.queries]
        case CandidatesPage():
            blocks = [[_prices(page), *_together(page.together)], *(_candidates(query) for query in page.queries)]
        case ChosenPage():
            blocks = [
                [*_head(page), *_together(page.together)],
                *(_plan(query) for query in page.queries),
                _notices(page.notices),
            ]
        case TopologyPage():
            stores = [line for store in page.stores for line in _store(store)]
            ways = (_ways(query) for query in page.queries)
            short = [line for found in page.summaries for line in _summary(found)]
            blocks = [
                [*_head(page), *short],
                ["stores", *stores],
                *ways,
                _sharing(page.sharing),
                _notices(page.notices),
            ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


# ------------------------------------------------------------------------------------- parsed, resolved


def _query_as_written(query: WrittenQuery) -> list[str]:
    rows = [("from", r.stream, f"as {r.alias}", f"within {r.within}" if r.within else "") for r in query.relations]
    lines = [f"query {query.query}", *table(rows, "  ")]
    lines += [f"  within  {query.within}, for aliases without their own"] if query.within else []
    lines += [f"  where  {predicate}" for predicate in query.predicates]
    lines += [f"  group by  {key}" for key in query.group_by] + [f"  having  {test}" for test in query.having]
    lines += ["  distinct  equal rows are one"] if query.distinct else []
    return lines + [f"  select  {o.expression}" + (f" as {o.name}" if o.name else "") for o in query.outputs]


def _query_as_known(query: KnownQuery) -> list[str]:
    lines = [f"query {query.query}" + ("  cross products allowed" if query.cross_product else "")]
    for relation in query.relations:
        lines += _relation(relation)
    lines += [f"  join {', '.join(j.aliases)}  on {p}" for j in query.joins for p in j.predicates]
    lines += _groups(query.groups)
    return [*lines, *table([("output", o.name, o.type, f"= {o.expression}") for o in query.outputs], "  ")]


def _groups(groups: KnownGroups | None) -> list[str]:
    if groups is None:
        return []
    lines = [f"  group by {key}" for key in groups.keys] or ["  one group"]
    lines += [f"  aggregate {value}" for value in groups.aggregates]
    lines += [f"  having {groups.having}"] if groups.having is not None else []
    return lines if groups.changes else [*lines, "  each row is there once and never changes"]


def _relation(relation: KnownRelation) -> Iterator[str]:
    yield f"  {relation.alias}  stream {relation.stream}"
    yield f"      reads {', '.join(f'{c.name} {c.type}' for c in relation.columns) or 'no column'}"
    if relation.event_time is not None:
        late = f", up to {duration(relation.lateness_micros)} late" if relation.lateness_micros else ""
        yield f"      event time {relation.event_time}{late}"
    yield f"      window {relation.window}"
    yield from (f"      where {selection}" for selection in relation.selections)
    yield f"      keep {_age(relation.retention_micros, relation.retention)} ({relation.because})"


def _age(micros: int | None, words: str) -> str:
    return f"until the watermark is {words} later" if micros else words


# -------------------------------------------------------------------------------------------- candidates


def _prices(page: CandidatesPage) -> str:
    p = page.prices
    parts = [
        f"wave {number(p.wave_millis)} ms", f"sent {number(p.sent_nanos)} ns", f"probed {number(p.probed_nanos)} ns",
        f"checked {number(p.checked_nanos)} ns", f"matched {number(p.matched_nanos)} ns",
        f"stored {number(p.stored_nanos)} ns",
    ]  # fmt: skip
    return f"candidates  for {count(page.workers, 'worker')}, by {p.source} prices: {', '.join(parts)}  ({GLOSSARY})"


def _candidates(query: CandidatesOfQuery) -> list[str]:
    known = "statistics" if query.statistics else "no statistics (all numbers are assumed)"
    lines = [f"query {query.query}  strategy {query.strategy}, {known}, counted {query.counted}"]
    if query.budget is not None:
        lines.append(f"  budget {number(query.budget)} {query.budget_unit}")
    lines += table([*_inputs(query), *_pairs(query), *_asked(query)], "  ")
    lines.append(f"  {count(query.considered, 'candidate')}{', the cheapest first' if query.considered > 1 else ''}")
    lines += table([_COLUMNS, *(_candidate(found) for found in query.candidates)], "  ")
    if (hidden := query.considered - len(query.candidates)) > 0:
        lines.append(f"    and {hidden} more, up to {number(query.most_micros_an_input_row)} µs a row")
    return [*lines, f"  chosen  {query.chosen}: {query.because}"]


_COLUMNS = (" ", "µs a row", "of it waves", "waves", "tuples sent", "exchanged", "rows stored", "plan", "")


def _candidate(found: CandidateNumbers) -> tuple[str, ...]:
    numbers = (found.tuples_sent, found.tuples_exchanged, found.rows_stored)
    return (
        "*" if found.chosen else " ",
        number(found.micros_an_input_row),
        number(found.waves_micros_an_input_row),
        str(found.waves),
        *map(number, numbers),
        found.name,
        found.tree,
    )


def _inputs(query: CandidatesOfQuery) -> list[tuple[str, ...]]:
    lines: list[tuple[str, ...]] = []
    for found in query.inputs:
        rate = "" if found.rows_a_second is None else f", {number(found.rows_a_second)} a second"
        what = f"{number(found.rows)} rows of {found.stream}{rate}"
        lines.append(("input", found.alias, f"{what}  ({found.source})"))
    return lines


def _asked(query: CandidatesOfQuery) -> list[tuple[str, ...]]:
    """What tuples leave of subscriptions."""
    if query.subscriptions is None:
        return []
    of = f"of {number(query.subscriptions)} subscriptions"
    return [
        ("asked", ", ".join(a.aliases), f"~{number(a.left)} {of} left; {number(a.wanted * 100)} % of tuples go on")
        for a in query.asked
    ]


def _pairs(query: CandidatesOfQuery) -> list[tuple[str, ...]]:
    return [("pair", ", ".join(p.aliases), f"{share(p.selectivity)}  ({p.source})") for p in query.pairs]


# ------------------------------------------------------------------------------------------------ chosen


def _head(page: ChosenPage | TopologyPage) -> list[str]:
    if isinstance(page, ChosenPage):
        line = f"chosen  for {count(page.workers, 'worker')}"
    else:
        line = f"plan  {page.kind}, {count(page.workers, 'worker')}, {count(page.waves, 'wave')} a batch"
    if page.batches_measured:
        line += f", measured in {count(page.batches_measured, 'batch')}"
    return [f"{line}  ({GLOSSARY})"]


def _summary(found: SummaryFacts) -> list[str]:
    """A plan for people who do not know its words."""
    cost = (
        "" if found.work_micros_an_input_row is None else f", about {number(found.work_micros_an_input_row)} µs of work"
    )
    asks = {0: "asks no other stream"}.get(found.looks, f"asks up to {count(found.looks, 'store')}")
    return [
        f"query {found.query}, in short",
        f"  keeps      {'; '.join(found.keeps) or 'nothing'}",
        f"  a new row  {asks}, in {count(found.rounds, 'round')} through the workers{cost}",
        f"  chosen     {found.plan}: {found.because}",
        *([f"  results    {found.results}"] if found.results else []),
    ]


def _plan(plan: ChosenPlan) -> list[str]:
    lines = [f"query {plan.query}  {plan.plan} {plan.shape}"]
    if plan.micros_an_input_row is not None:
        lines.append(
            f"  ~{number(plan.micros_an_input_row)} µs an input row, {count(plan.waves, 'wave')} a batch, "
            f"~{number(plan.tuples_sent or 0)} tuples sent, ~{number(plan.rows_stored or 0)} rows stored"
        )
        lines.append(f"  input {_figure(plan.input_rows)}; tuples are counted {plan.counted}")
    lines += table(list(_tree(plan.tree, "", "")), "  ")
    for order in plan.orders:
        filling = f", to fill {join_names(order.fills)}" if order.fills else ""
        lines += [f"  on {order.alias}{filling}", *table([_hop(hop) for hop in order.hops], "    ")]
        lines += [] if order.fills else ["    emit"]
    return lines


def _tree(node: TreeNode, lead: str, below: str) -> Iterator[tuple[str, str, str, str]]:
    what = node.stream or ("kept" if node.kind == "kept" else "result, not stored")
    where = "" if node.workers is None else _place(node, node.workers)
    yield f"{lead}{join_names(node.aliases)}", what, where, _figure(node.rows)
    for child in node.children:
        last = child is node.children[-1]
        yield from _tree(child, f"{below}{'└─ ' if last else '├─ '}", f"{below}{'   ' if last else '│  '}")


def _place(node: TreeNode, workers: int) -> str:
    where = place(node.placement, node.spread)
    return "here" if workers == 1 else where if node.spread else f"{where}, {count(workers, 'worker')}"


def _hop(hop: HopFacts) -> tuple[str, ...]:
    what = f"probe {join_names(hop.target)}" if hop.kind == "probe" else f"keep {join_names(hop.target)}"
    key = f" by {', '.join(hop.route_key)}" if hop.route_key else ""
    came = _figure(hop.tuples_in)
    found = "" if hop.matches is None else _figure(hop.matches, "matches")
    flow = f"{came} -> {found}" if came and found else came
    return f"wave {hop.wave}", f"{ROUTES[hop.route]}{key}", what, flow


# ---------------------------------------------------------------------------------------------- topology


def _store(store: StoreFacts) -> Iterator[str]:
    where = place(store.placement, store.spread)
    rows = _figure(store.rows).replace("rows held", "rows")
    yield f"  {store.name}  store {store.of}  {where}  for {', '.join(store.users)}"
    if rows:
        yield f"      holds {rows}"
    yield f"      keep {_age(store.retention_micros, store.retention)} ({store.because})"
    if store.where:
        yield f"      where {' AND '.join(store.where)}"
    yield f"      columns {', '.join(store.columns)}"
    yield from (f"      index {index}" for index in store.indexes)


def _ways(query: QueryFacts) -> list[str]:
    results = _figure(query.results)
    lines = [f"query {query.query}" + (f"  {results}" if results else "")]
    lines[0] += f", tuples counted {query.counted}" if results and query.counted else ""
    for way in query.ways:
        filling = "" if way.fills is None else f", to fill {way.fills}"
        lines += [f"  on {way.alias}{filling}", *(f"    {_part(part)}" for part in way.parts)]
        lines += ["    emit"] if way.fills is None else []
    return lines


def _part(part: ProbeFacts | KeepFacts) -> str:
    where = f"wave {part.wave}, {ROUTES[part.route]}"
    if isinstance(part, KeepFacts):
        return f"{where}: keep in {part.store}{_also(part)}"
    check = f" check {' AND '.join(part.checks)}" if part.checks else ""
    asks = ", ".join(part.asks) or "every row"
    came, found = _figure(part.tuples_in), _figure(part.matches, "matches")
    flow = f"  {came} -> {found}" if came or found else ""
    left = f" leaves 1 of ~{number(1 / part.candidates)} rows" if part.candidates else ""
    return f"{where}: probe {part.store} as {', '.join(part.aliases)} [{asks}]{left}{check}{flow}{_also(part)}"


def _also(part: ProbeFacts | KeepFacts) -> str:
    return f"  also for {', '.join(part.shared_with)}" if part.shared_with else ""


# ----------------------------------------------------------------------------------------------- sharing


def _together(found: TogetherFacts | None) -> list[str]:
    if found is None:
        return []
    plans = f"plans of {found.queries} {'query' if found.queries == 1 else 'queries'} chosen together"
    gain = f"{number(found.cheaper_percent)} % cheaper" if found.used else "no better"
    took = "" if found.planning_seconds is None else f", in {number(found.planning_seconds)} s"
    return [f"together  {plans}, {gain} than separate ones, {_proof(found)}{took}"]


def _proof(found: TogetherFacts) -> str:
    """How good the plan is known to be."""
    if found.ended == "optimal":
        return "proven best"
    if found.gap_percent is None:
        return "found by search alone"
    within = f"within {number(found.gap_percent)} % of the best"
    return within if found.ended == "gap" else f"{within} when time ran out"


def _sharing(found: SharingFacts | None) -> list[str]:
    if found is None:
        return []
    stores = f"{found.stores_shared} of {count(found.stores, 'store')}"
    probes = f"{found.probes_shared} of {count(found.probes, 'probe')}"
    lines = [f"sharing  {stores} and {probes} serve several queries"]
    lines += [f"  {line}" for line in _together(found.together)]
    if found.rows_stored is not None:
        rows = [("in all", *_instead(found.rows_stored, found.rows_stored_apart, "rows stored"),
                 *_instead(found.tuples_probed or 0.0, found.tuples_probed_apart, "tuples probed"))]  # fmt: skip
        lines += table(rows, "  ")
    shared = [
        (f"query {q.query}", f"shares ~{number(q.rows_stored_shared)} of ~{number(q.rows_stored)} rows stored,",
         f"~{number(q.tuples_probed_shared)} of ~{number(q.tuples_probed)} tuples probed")
        for q in found.queries
    ]  # fmt: skip
    lines += table(shared, "  ")
    for tree in found.trees:
        lines.append(f"  on {tree.label}  for {', '.join(tree.queries)}")
        lines += [f"    {line}" for line in _branches(tree.then, "")]
    return lines


def _instead(now: float, apart: float | None, what: str) -> tuple[str, ...]:
    return (f"~{number(now)} {what} instead of ~{number(apart or 0.0)}",)


def _branches(probes: Sequence[ProbeTree], below: str) -> Iterator[str]:
    for probe in probes:
        last = probe is probes[-1]
        ends = f" -> {', '.join(probe.ends)}" if probe.ends else ""
        what = f"{probe.store} as {', '.join(probe.members)}  for {', '.join(probe.queries)}"
        yield f"{below}{'└─ ' if last else '├─ '}{what}{ends}"
        yield from _branches(probe.then, f"{below}{'   ' if last else '│  '}")


# ----------------------------------------------------------------------------------- figures and notices


def _figure(figure: Figure, unit: str | None = None) -> str:
    """~12 k tuples; with what was measured: (~12 k tuples, 13 k measured, x1.08)."""
    name = figure.unit if unit is None else figure.unit.replace("tuples", unit)
    parts = [f"~{number(figure.estimated)} {name}"] if figure.estimated is not None else []
    if figure.measured is not None:
        parts.append(f"{number(figure.measured)} measured" if parts else f"{number(figure.measured)} {name} measured")
    if figure.ratio is not None:
        parts.append(f"x{number(figure.ratio)}")
    return f"({', '.join(parts)})" if len(parts) > 1 else "".join(parts)


def _notices(notices: Sequence[Notice]) -> list[str]:
    return [line for notice in notices for line in notice.lines()]
