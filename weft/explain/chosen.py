"""Stage "chosen": the winning plan of each query, as a tree and as the order in which its tuples probe stores."""

from __future__ import annotations

from weft.explain.figures import Figures, period
from weft.explain.notices import notices
from weft.explain.pages.chosen import ChosenPage, ChosenPlan, HopFacts, ProbeOrder, TreeNode
from weft.explain.pages.figure import Figure
from weft.explain.subject import Subject
from weft.explain.words import JOINED, cells, expressions, shape
from weft.expr.render import to_sql
from weft.optimizer.choose import Choice
from weft.optimizer.graph.layout import names
from weft.optimizer.graph.tree import Tree
from weft.optimizer.lower import ways


def page(subject: Subject) -> ChosenPage:
    """The page."""
    figures = Figures(subject.choose(), subject.lay(), subject.measured)
    return ChosenPage(
        "chosen",
        figures.topology.workers,
        (0 if subject.measured is None else subject.measured.batches) if subject.analyze else None,
        tuple(_plan(choice, figures) for choice in figures.choices),
        notices(figures, analyze=subject.analyze),
    )


def _plan(choice: Choice, figures: Figures) -> ChosenPlan:
    bill = choice.chosen.bill
    known = choice.informed
    return ChosenPlan(
        choice.name,
        choice.chosen.name,
        shape(choice.query, choice.chosen.layout.tree),
        period(choice, figures.seconds(choice)),
        tree(choice, figures),
        tuple(_order(choice, alias, figures) for alias in choice.query.aliases),
        figures.input_rows(choice),
        bill.pcost if known else None,
        bill.sent if known else None,
        bill.scost if known else None,
        bill.waves,
        bill.micros if known else None,
    )


# -------------------------------------------------------------------------------------------------- tree


def tree(choice: Choice, figures: Figures) -> TreeNode:
    """The tree of a plan, the result at its root."""
    root = choice.chosen.layout.tree
    return TreeNode(
        "result",
        choice.query.aliases,
        None if root.children else choice.query.relations[0].stream.name,
        (),
        None,
        figures.results(choice),
        tuple(_node(choice, child, figures) for child in root.children),
    )


def _node(choice: Choice, part: Tree, figures: Figures) -> TreeNode:
    members = names(choice.query, part.relations)
    made, spread = choice.chosen.ways, choice.chosen.layout.spread
    return TreeNode(
        "kept" if part.children else "stream",
        members,
        None if part.children else choice.query.relation(members[0]).stream.name,
        tuple(to_sql(expr) for expr in choice.chosen.layout.placement.get(part.relations, ())),  # as weft.Plan takes it
        made.tasks(part.relations),
        figures.rows(figures.store_of(choice, part.relations)),
        tuple(_node(choice, child, figures) for child in part.children),
        JOINED if part.children and spread else cells(spread.get(part.relations)),
    )


# ------------------------------------------------------------------------------------------------ orders


def _order(choice: Choice, alias: str, figures: Figures) -> ProbeOrder:
    parts = choice.chosen.ways.paths[alias]
    hops = [_hop(choice, alias, i, part, figures) for i, part in enumerate(parts, start=1)]
    return ProbeOrder(alias, tuple(hops))


def _hop(choice: Choice, alias: str, i: int, part: ways.Hop | ways.Keeping, figures: Figures) -> HopFacts:
    probe = isinstance(part, ways.Hop)
    return HopFacts(
        "probe" if probe else "keep",
        names(choice.query, part.store),
        part.wave,
        part.route,
        expressions(part.route_key),
        part.tasks,
        figures.tuples_in(choice, alias, i) if probe else _rows_kept(choice, alias, i, figures),
        figures.matches(choice, alias, i) if probe else None,
    )


def _rows_kept(choice: Choice, alias: str, i: int, figures: Figures) -> Figure:
    """Rows that a keep stores: what the last probe before it found."""
    before = enumerate(choice.chosen.ways.paths[alias][: i - 1], start=1)
    last = max(number for number, part in before if isinstance(part, ways.Hop))
    return figures.matches(choice, alias, last)
