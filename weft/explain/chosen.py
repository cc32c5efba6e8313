"""Stage "chosen": the winning plan of each query, as a tree and as the order in which its tuples probe stores."""

from __future__ import annotations

from collections.abc import Iterator

from weft.explain.figures import Figures, period
from weft.explain.notices import notices
from weft.explain.pages.chosen import ChosenPage, ChosenPlan, HopFacts, ProbeOrder, TreeNode
from weft.explain.pages.figure import Figure
from weft.explain.sharing import together
from weft.explain.subject import Subject
from weft.explain.words import JOINED, cells, expressions, layout_shape, plan_name
from weft.expr.render import to_sql
from weft.optimizer.choose import Choice
from weft.optimizer.graph.joingraph import bits
from weft.optimizer.graph.layout import names
from weft.optimizer.graph.tree import Tree
from weft.topology.node import Keep, Probe


def page(subject: Subject) -> ChosenPage:
    """The page."""
    figures = Figures(subject.choose(), subject.lay(), subject.measured)
    return ChosenPage(
        "chosen",
        figures.topology.workers,
        (0 if subject.measured is None else subject.measured.batches) if subject.analyze else None,
        tuple(_plan(choice, figures) for choice in figures.choices),
        notices(figures, analyze=subject.analyze),
        together(figures.choices, analyze=subject.analyze),
    )


def _plan(choice: Choice, figures: Figures) -> ChosenPlan:
    bill = choice.chosen.bill
    known = choice.informed
    return ChosenPlan(
        choice.name,
        plan_name(choice, choice.chosen),
        layout_shape(choice.query, choice.chosen.layout),
        period(choice, figures.seconds(choice)),
        tree(choice, figures),
        tuple(_orders(choice, figures)),
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
        tuple(_node(choice, child, figures) for child in (*root.children, *_kept(choice))),
    )


def _kept(choice: Choice) -> Iterator[Tree]:
    """The joins that a plan by lines keeps, beside its inputs."""
    if choice.chosen.layout.lines:
        for store in choice.chosen.layout.kept:
            yield Tree(store, tuple(Tree(1 << i) for i in bits(store)))


def _node(choice: Choice, part: Tree, figures: Figures) -> TreeNode:
    members = names(choice.query, part.relations)
    made, layout = choice.chosen.ways, choice.chosen.layout
    spread, store = layout.spread, figures.find(choice, part.relations)
    homes = layout.homes(part.relations)[:1] or ((),)
    return TreeNode(
        "kept" if part.children else "stream",
        members,
        None if part.children else choice.query.relation(members[0]).stream.name,
        tuple(to_sql(expr) for expr in homes[0]),  # as weft.Plan takes it
        made.tasks(part.relations),
        Figure("rows") if store is None else figures.rows(store),
        () if layout.lines else tuple(_node(choice, child, figures) for child in part.children),
        JOINED if part.children and spread else cells(spread.get(part.relations)),
    )


# ------------------------------------------------------------------------------------------------ orders


def _orders(choice: Choice, figures: Figures) -> Iterator[ProbeOrder]:
    for alias in choice.query.aliases:
        for number, way in enumerate(figures.ways(choice, alias) or [()]):
            last = way[-1] if way else None
            fills = _aliases(choice, figures, last.store) if number and isinstance(last, Keep) else ()
            yield ProbeOrder(alias, tuple(_hop(choice, node, figures) for node in way), fills)


def _hop(choice: Choice, node: Probe | Keep, figures: Figures) -> HopFacts:
    called = figures.topology.aliases_of(choice.name)
    found = None if isinstance(node, Keep) else figures.matches(choice, node)
    labels = figures.topology.store(node.store).members if isinstance(node, Keep) else node.members
    return HopFacts(
        "keep" if isinstance(node, Keep) else "probe",
        tuple(alias for label, alias in called.items() if label in labels),
        node.wave,
        node.route,
        expressions(node.route_key, called),
        node.tasks,
        figures.tuples_in(choice, node),
        found,
    )


def _aliases(choice: Choice, figures: Figures, store: str) -> tuple[str, ...]:
    """The members of a kept join in query order."""
    labels = figures.topology.store(store).members
    return tuple(alias for label, alias in figures.topology.aliases_of(choice.name).items() if label in labels)
