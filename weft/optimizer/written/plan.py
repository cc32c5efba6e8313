"""Plans as people write them, and as a checkpoint remembers them.

    weft.Plan(
        keep=[("c", "o")],                                    # join results to keep in stores of their own
        orders={"l": [("c", "o")], "c": ["o"], "o": ["c"]},   # which stores new tuples of a store ask, in which order
        placement={"l": "l.l_orderkey", ("c", "o"): "o.o_orderkey", "c": None},
        parallelism={"c": 1},                                 # on how many workers a store lies
        ranges=["l.l_price", "l.l_day"],                      # what inequalities limit and an index has together
        subscriptions="narrow",                               # what comes first: asking them, or "join"
    )

    weft.Plan(lines=[                                         # instead of all that: every order by itself
        (("c", "o"), "c", [("o", "o.o_custkey")]),            # new tuples of c look into o, and become rows of c+o
        (("c", "o"), "o", [("c", "c.c_custkey")]),
        (("c", "o", "l"), "l", [(("c", "o"), "o.o_orderkey")]), ...
    ])

A store is named by its alias, or by the aliases of a kept join.  What is left out is chosen: orders and placement by
cost.  A key must be one side of an equality with something outside the store, written as `explain` prints it;
None scatters the rows.

What must hold: a kept join has two or more aliases, but not all of them.  Two kept joins have no alias in common, or
one contains the other.  An order names each sibling of its store exactly once.  Lines are checked in `written.lines`.
Anything else is refused, and the error lists what is possible.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from weft.errors import PlanError
from weft.expr.model import Expr
from weft.expr.render import to_sql
from weft.optimizer.graph.layout import Layout, mask, names
from weft.optimizer.graph.limited import limited_in
from weft.optimizer.graph.placement import keys
from weft.optimizer.graph.tree import Tree, flat_tree
from weft.optimizer.written.lines import WrittenLine, read_lines, write_lines
from weft.optimizer.written.spread import read_spread, write_spread
from weft.query.model import Query
from weft.query.parameters import Order

Name = str | Sequence[str]
"""A store: an alias, or the aliases of a kept join."""
Keys = str | Sequence[str] | None
"""One key, several, or None for anywhere."""
StoreName = tuple[str, ...]
"""The aliases of a store, sorted."""
Spelled = tuple[Any, ...]
"""A spread in plain data, see weft.optimizer.written.spread."""


@dataclass(frozen=True, slots=True, init=False)
class Plan:
    """A plan written by hand; every part may be left out."""

    keep: tuple[StoreName, ...]
    orders: tuple[tuple[StoreName, tuple[StoreName, ...]], ...]
    placement: tuple[tuple[StoreName, tuple[str, ...]], ...]
    parallelism: tuple[tuple[StoreName, int], ...]
    spread: tuple[tuple[str, Spelled], ...]
    lines: tuple[WrittenLine, ...]
    ranges: tuple[str, ...] | None
    subscriptions: Order | None
    asked: tuple[StoreName, ...] | None

    def __init__(
        self,
        keep: Iterable[Sequence[str]] = (),
        *,
        orders: Mapping[Name, Sequence[Name]] | None = None,
        placement: Mapping[Name, str | Sequence[str] | None] | None = None,
        parallelism: Mapping[Name, int] | None = None,
        spread: Mapping[str, Any] | None = None,
        lines: Iterable[tuple[Name, str, Sequence[tuple[Name, Keys]]]] = (),
        ranges: Sequence[str] | None = None,
        subscriptions: Order | None = None,
        asked: Iterable[Name] | None = None,
    ) -> None:
        """`placement` gives one key, several, or None for anywhere.

        `spread` puts all aliases on a cube of workers instead: alias -> its axes in order, each (length, key), where
        the key is an expression that is hashed, "random", or "copy".

        `lines` say all by themselves: what is made (all aliases, or those of a join to keep), the alias whose new
        tuples make it, and the stores they look into in order, each with the key that it lies by.  Beside a spread
        there are no keys.

        `ranges` are expressions that inequalities limit, as `explain` prints them; a look with limits on two or more of
        them uses an index by all of these.  An empty list means one range an index; None leaves it open.

        `subscriptions` says what comes first in a query that has any: "narrow", "join" or "naive"; None leaves it open.
        `asked` names the tuples that ask them before they go on, by the aliases that they hold; None means all.
        """
        try:
            self._fix(keep, orders or {}, placement or {}, parallelism or {}, spread or {})
            object.__setattr__(self, "lines", tuple(sorted(_line(*line) for line in lines)))
            object.__setattr__(self, "ranges", None if ranges is None else _texts(ranges))
            object.__setattr__(self, "subscriptions", _known_order(subscriptions))
            names = None if asked is None else tuple(sorted(_aliases(name) for name in asked))
            object.__setattr__(self, "asked", names)
        except (TypeError, ValueError, AttributeError) as error:
            raise PlanError(
                "a part of the plan has a form that is not understood",
                detail=f"{error}.",
                hint='as in weft.Plan(keep=[("a", "b")], orders={"c": [("a", "b")]}, placement={"c": "c.k"}).',
            ) from error

    def _fix(
        self,
        keep: Iterable[Sequence[str]],
        orders: Mapping[Name, Sequence[Name]],
        placement: Mapping[Name, str | Sequence[str] | None],
        parallelism: Mapping[Name, int],
        spread: Mapping[str, Any],
    ) -> None:
        fix = object.__setattr__
        fix(self, "keep", tuple(sorted(_aliases(kept) for kept in keep)))
        ordered = ((_aliases(k), tuple(_aliases(s) for s in v)) for k, v in orders.items())
        fix(self, "orders", tuple(sorted(ordered)))
        fix(self, "placement", tuple(sorted((_aliases(k), _texts(v)) for k, v in placement.items())))
        fix(self, "parallelism", tuple(sorted((_aliases(k), v) for k, v in parallelism.items())))
        fix(self, "spread", tuple(sorted((alias, _freeze(axes)) for alias, axes in spread.items())))

    def __repr__(self) -> str:
        short = {
            "keep": list(self.keep),
            "orders": {_short(k): [_short(s) for s in v] for k, v in self.orders},
            "placement": {_short(k): (_short(v) if v else None) for k, v in self.placement},
            "parallelism": {_short(k): v for k, v in self.parallelism},
            "spread": dict(self.spread),
            "lines": [(goal, start, list(looks)) for goal, start, looks in self.lines],
            "subscriptions": self.subscriptions,
            "asked": None if self.asked is None else [_short(name) for name in self.asked],
        }
        return f"weft.Plan({', '.join(f'{name}={part!r}' for name, part in short.items() if part)})"

    def to_json(self) -> str:
        """The plan as one line of JSON, the same for equal plans."""
        parts = {
            "keep": [list(kept) for kept in self.keep],
            "orders": [[list(k), [list(s) for s in v]] for k, v in self.orders],
            "placement": [[list(k), list(v)] for k, v in self.placement],
            "parallelism": [[list(k), v] for k, v in self.parallelism],
            "spread": dict(self.spread),
            "lines": self.lines,
        }
        given = {"ranges": self.ranges, "subscriptions": self.subscriptions, "asked": self.asked}
        known = {name: part for name, part in given.items() if part is not None}
        return json.dumps({name: part for name, part in parts.items() if part} | known)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """The plan behind the text of :meth:`to_json`."""
        parts = json.loads(text)
        return cls(
            parts.get("keep", ()),
            orders={tuple(k): [tuple(s) for s in v] for k, v in parts.get("orders", ())},
            placement={tuple(k): tuple(v) for k, v in parts.get("placement", ())},
            parallelism={tuple(k): v for k, v in parts.get("parallelism", ())},
            spread=parts.get("spread"),
            lines=[(tuple(g), s, [(tuple(n), tuple(k)) for n, k in looks]) for g, s, looks in parts.get("lines", ())],
            ranges=parts.get("ranges"),
            subscriptions=parts.get("subscriptions"),
            asked=None if (asked := parts.get("asked")) is None else [tuple(name) for name in asked],
        )


def _short(name: tuple[str, ...]) -> str | tuple[str, ...]:
    return name[0] if len(name) == 1 else name


def _aliases(name: Name) -> StoreName:
    return (name,) if isinstance(name, str) else tuple(sorted(name))


def _line(goal: Name, start: str, looks: Sequence[tuple[Name, Keys]]) -> WrittenLine:
    return _aliases(goal), start, tuple((_aliases(store), _texts(keys)) for store, keys in looks)


def _freeze(given: Any) -> Any:
    return tuple(_freeze(part) for part in given) if isinstance(given, list | tuple) else given


def _known_order(given: Order | None) -> Order | None:
    if given is not None and given not in get_args(Order):
        raise ValueError(f'subscriptions="{given}" is none of {", ".join(get_args(Order))}')
    return given


def _texts(given: str | Sequence[str] | None) -> tuple[str, ...]:
    return () if given is None else (given,) if isinstance(given, str) else tuple(given)


# ----------------------------------------------------------------------------------------------- reading


def bind(plan: Plan, query: Query) -> Layout:
    """The plan in terms of a query, without what it leaves open; an error says what is wrong with it."""
    if plan.lines:
        return _bind_lines(plan, query)
    tree = _tree(query, [_store(query, kept) for kept in plan.keep])
    stores = {store.relations for store in tree.stores}
    placement = {
        _find_store(query, stores, name): _keys(query, _find_store(query, stores, name), texts)
        for name, texts in plan.placement
    }
    orders = {_find_store(query, stores, name): _order(query, tree, name, order) for name, order in plan.orders}
    tasks = {_find_store(query, stores, name): _count(name, count) for name, count in plan.parallelism}
    spread = read_spread(query, dict(plan.spread))
    ranges = _ranges(query, plan, tuple(stores))
    return _with_asked(query, plan, Layout(tree, placement, orders, tasks, spread, ranges=ranges))


def write(query: Query, layout: Layout) -> Plan:
    """The layout as a written plan that binds to it again."""
    tasks: dict[Name, int] = {names(query, s): count for s, count in layout.tasks.items()}
    ranged = [to_sql(expr) for expr in layout.ranges] or None
    if layout.lines:
        spread = write_spread(query, layout.spread)
        lines = write_lines(query, layout.lines)
        return Plan(
            parallelism=tasks, spread=spread, lines=lines, ranges=ranged, subscriptions=layout.subscriptions,
            asked=_write_asked(query, layout),
        )  # fmt: skip
    inner = [names(query, store.relations) for store in layout.tree.stores if store.children]
    return Plan(
        inner,
        orders={names(query, s): [names(query, t) for t in order] for s, order in layout.orders.items()},
        placement={names(query, s): [to_sql(expr) for expr in home] for s, home in layout.placement.items()},
        parallelism=tasks,
        spread=write_spread(query, layout.spread),
        ranges=ranged,
        subscriptions=layout.subscriptions,
        asked=_write_asked(query, layout),
    )


def _write_asked(query: Query, layout: Layout) -> list[Name] | None:
    return None if layout.asked is None else [names(query, some) for some in layout.asked]


def _with_asked(query: Query, plan: Plan, layout: Layout) -> Layout:
    asked = None if plan.asked is None else tuple(sorted(_store(query, name) for name in plan.asked))
    return replace(layout, subscriptions=plan.subscriptions, asked=asked)


def _bind_lines(plan: Plan, query: Query) -> Layout:
    if plan.keep or plan.orders or plan.placement:
        raise PlanError(
            "lines are given beside other parts of a plan",
            detail="lines say by themselves what is kept, in which order, and where.",
            hint="leave out keep, orders and placement.",
        )
    lines, spread = read_lines(query, plan.lines), read_spread(query, dict(plan.spread))
    if spread and any(home for targets in lines.values() for _, home in targets):
        raise PlanError(
            "lines on a cube name keys",
            detail="a cube decides by itself where rows lie.",
            hint="give None as the key of every store.",
        )
    stores = {store for targets in lines.values() for store, _ in targets}
    tasks = {_find_store(query, stores, name): _count(name, count) for name, count in plan.parallelism}
    ranges = _ranges(query, plan, tuple(stores))
    tree = flat_tree(len(query.relations))
    return _with_asked(query, plan, Layout(tree, tasks=tasks, spread=spread, lines=lines, ranges=ranges))


def _ranges(query: Query, plan: Plan, stores: tuple[int, ...]) -> tuple[Expr, ...]:
    """The expressions to index together; only those can be used that an inequality limits."""
    there = {to_sql(expr): expr for expr in limited_in(query, stores)} if plan.ranges else {}
    if unknown := [text for text in plan.ranges or () if text not in there]:
        raise PlanError(
            f'"{unknown[0]}" cannot be a range of an index',
            detail=f"what inequalities of the query limit: {', '.join(there) or 'nothing'}.",
            hint="use some of these, or leave ranges out.",
        )
    return tuple(there[text] for text in plan.ranges or ())


def _store(query: Query, name: StoreName) -> int:
    if unknown := [alias for alias in name if alias not in query.aliases]:
        raise PlanError(
            f'the plan names "{unknown[0]}"',
            detail=f"the query has the aliases {', '.join(query.aliases)}.",
            hint="a store is an alias of the query, or the aliases of a kept join.",
        )
    return mask(query, name)


def _find_store(query: Query, stores: set[int], name: StoreName) -> int:
    store = _store(query, name)
    if store not in stores:
        there = ", ".join("+".join(names(query, s)) for s in sorted(stores))
        raise PlanError(
            f'the plan has no store "{"+".join(name)}"', detail=f"its stores are {there}.", hint="add it to keep=[...]."
        )
    return store


def _tree(query: Query, kept: Sequence[int]) -> Tree:
    """The tree whose inner operators are exactly the kept joins."""
    whole = (1 << len(query.relations)) - 1
    nodes = [Tree(1 << i) for i in range(len(query.relations))]
    for store in sorted({*kept, whole}, key=lambda s: (s.bit_count(), s)):
        inside = [node for node in nodes if node.relations & store]
        if any(node.relations & ~store for node in inside) or (store != whole and store.bit_count() < 2):
            raise PlanError(
                f'the kept join "{"+".join(names(query, store))}" does not fit the others',
                detail="a kept join has two or more aliases; two kept joins share no alias, or one contains the other.",
                hint=f"kept joins: {', '.join('+'.join(names(query, s)) for s in kept)}.",
            )
        if len(inside) > 1:
            nodes = [node for node in nodes if node not in inside]
            nodes.append(Tree(store, tuple(sorted(inside, key=lambda node: node.relations & -node.relations))))
    if whole in kept and len(query.relations) > 1:
        raise PlanError(
            "the plan keeps the join of all aliases",
            detail="that is the result; it goes to the sinks and is not stored.",
            hint="leave it out of keep=[...].",
        )
    return nodes[0]


def _keys(query: Query, store: int, texts: tuple[str, ...]) -> tuple[Expr, ...]:
    """The key expressions; only those can be used whose value an equality gives to probing tuples."""
    usable = {to_sql(expr): expr for expr in keys(query, store, {})}
    if unknown := [text for text in texts if text not in usable]:
        raise PlanError(
            f'"{unknown[0]}" cannot place "{"+".join(names(query, store))}"',
            detail=f"keys that equalities of the query offer: {', '.join(usable) or 'none'}.",
            hint="use one of these, or None to scatter the rows.",
        )
    return tuple(usable[text] for text in texts)


def _order(query: Query, tree: Tree, name: StoreName, order: Sequence[StoreName]) -> tuple[int, ...]:
    store = _store(query, name)
    parent = next(op for op in tree.operators if store in {child.relations for child in op.children})
    siblings = [child.relations for child in parent.children if child.relations != store]
    given = [_store(query, other) for other in order]
    if sorted(given) != sorted(siblings):
        wanted = ", ".join("+".join(names(query, s)) for s in siblings)
        raise PlanError(
            f'the order of "{"+".join(name)}" is {", ".join("+".join(o) for o in order) or "empty"}',
            detail=f"its tuples have to meet each of: {wanted}.",
            hint="name each of them once.",
        )
    return tuple(given)


def _count(name: StoreName, count: int) -> int:
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise PlanError(
            f'parallelism of "{"+".join(name)}" is {count!r}',
            detail="it is the number of workers that the rows of a store lie on.",
            hint="use a whole number >= 1, or leave it out for all workers.",
        )
    return count
