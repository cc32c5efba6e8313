"""Pages as charts.

parsed, resolved      the graph of the joins: aliases, and between them what joins them
candidates, chosen    the tree that won
topology              streams, edges, stores, and the ways of all aliases through them
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.explain.chart import Chart, Kind
from weft.explain.pages import Page
from weft.explain.pages.candidates import CandidatesPage
from weft.explain.pages.chosen import ChosenPage, TreeNode
from weft.explain.pages.figure import Figure
from weft.explain.pages.parsed import ParsedPage, WrittenQuery
from weft.explain.pages.resolved import KnownQuery, ResolvedPage
from weft.explain.pages.topology import EdgeFacts, KeepFacts, ProbeFacts, QueryFacts, StoreFacts, TopologyPage, WayFacts
from weft.explain.words import ROUTES, count, join_names, number, place


def draw(page: Page) -> Chart:
    """The page as a chart."""
    match page:
        case ParsedPage():
            chart = Chart("LR")
            for written in page.queries:
                _joins(chart, written.query, _aliases_as_written(written), _stated_joins(written))
        case ResolvedPage():
            chart = Chart("LR")
            for known in page.queries:
                _joins(chart, known.query, _aliases_as_known(known), [(j.aliases, j.predicates) for j in known.joins])
        case CandidatesPage() | ChosenPage():
            chart = Chart("TD")
            for plan in page.queries:
                chart.begin(f"query {plan.query}")
                _tree(chart, plan.tree)
                chart.end()
        case TopologyPage():
            chart = Chart("LR")
            _topology(chart, page)
    return chart


# ------------------------------------------------------------------------------------------------- joins


Joins = Sequence[tuple[Sequence[str], Sequence[str]]]
"""Aliases, and the predicates over them."""


def _joins(chart: Chart, query: str, relations: Mapping[str, Sequence[str]], joins: Joins) -> None:
    """A node for each alias; a line for each pair; a box in the middle for predicates over more than two."""
    chart.begin(f"query {query}")
    drawn = {alias: chart.node("alias", *label) for alias, label in relations.items()}
    for over, predicates in joins:
        if len(over) == 2:
            chart.link(drawn[over[0]], drawn[over[1]], predicates, "---")
            continue
        middle = chart.node("predicate", *predicates)
        for alias in over:
            chart.link(drawn[alias], middle, line="---")
    chart.end()


def _aliases_as_written(query: WrittenQuery) -> dict[str, tuple[str, ...]]:
    return {r.alias: (f"{r.alias}: {r.stream}", f"within {r.within}" if r.within else "") for r in query.relations}


def _stated_joins(query: WrittenQuery) -> Joins:
    """Predicates over two or more aliases of the query; a predicate over one alias is not a join."""
    known = {relation.alias for relation in query.relations}
    found: dict[tuple[str, ...], list[str]] = {}
    for predicate, over in zip(query.predicates, query.predicate_names, strict=True):
        if len(over) >= 2 and known.issuperset(over):
            found.setdefault(over, []).append(predicate)
    return list(found.items())


def _aliases_as_known(query: KnownQuery) -> dict[str, tuple[str, ...]]:
    return {r.alias: (f"{r.alias}: {r.stream}", r.window, *r.selections) for r in query.relations}


# ------------------------------------------------------------------------------------------------- trees


def _tree(chart: Chart, node: TreeNode) -> str:
    kind: Kind = "result" if node.kind == "result" else "store"
    what = node.stream or ("kept" if node.kind == "kept" else "result")
    where = place(node.placement, node.spread) if node.placement or node.spread else ""
    spread = count(node.workers, "worker") if node.workers else ""
    name = chart.node(kind, join_names(node.aliases), what, where, spread, _figure(node.rows))
    for child in node.children:
        chart.link(name, _tree(chart, child))
    return name


def _figure(figure: Figure) -> str:
    known = f"~{number(figure.estimated)} {figure.unit}" if figure.estimated is not None else ""
    came = f"{number(figure.measured)} measured" if figure.measured is not None else ""
    return ", ".join(part for part in (known, came) if part)


# ---------------------------------------------------------------------------------------------- topology


def _topology(chart: Chart, page: TopologyPage) -> None:
    streams = {name: chart.node("input", name) for name in dict.fromkeys(edge.stream for edge in page.edges)}
    stores = {store.name: chart.node("store", *_store(store)) for store in page.stores}
    starts: dict[str, str] = {}
    for edge in page.edges:
        drawn = chart.node("edge", *_edge(edge))
        chart.link(streams[edge.stream], drawn)
        for store in edge.stores:
            chart.link(drawn, stores[store], ["keep"])
        starts.update(dict.fromkeys(edge.starts, drawn))
    for query in page.queries:
        _query(chart, query, starts, stores)


def _store(store: StoreFacts) -> tuple[str, ...]:
    where = place(store.placement, store.spread)
    return f"{store.name}: {store.of}", where, f"keep {store.retention}", _figure(store.rows)


def _edge(edge: EdgeFacts) -> tuple[str, ...]:
    key = f" by {', '.join(edge.route_key)}" if edge.route_key else ""
    return f"to {ROUTES[edge.route]}{key}", *edge.where


def _query(chart: Chart, query: QueryFacts, starts: Mapping[str, str], stores: Mapping[str, str]) -> None:
    emit = chart.node("result", f"emit {query.query}", _figure(query.results))
    for way in query.ways:
        _way(chart, query.query, way, starts[f"{query.query}.{way.alias}"], stores, emit)


def _way(chart: Chart, query: str, way: WayFacts, at: str, stores: Mapping[str, str], emit: str) -> None:
    label = f"on {query}.{way.alias}"
    for part in way.parts:
        if isinstance(part, KeepFacts):
            chart.link(at, stores[part.store], [f"keep, {ROUTES[part.route]}"])
            continue
        probe = chart.node("probe", *_probe(part))
        chart.link(at, probe, [label])
        chart.link(probe, stores[part.store], ["look"], "-.->")
        at, label = probe, _figure(part.matches).replace("tuples", "matches")
    if way.fills is None:
        chart.link(at, emit, [label])


def _probe(probe: ProbeFacts) -> tuple[str, ...]:
    where = f"wave {probe.wave}, {ROUTES[probe.route]}"
    return (
        f"probe {probe.store} as {', '.join(probe.aliases)}",
        where,
        *probe.asks,
        *probe.checks,
        _figure(probe.tuples_in),
    )
