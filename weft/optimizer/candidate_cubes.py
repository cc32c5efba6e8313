"""The cubes and ranges that are candidates for a query: every result is made on one worker, and rows are copied there.

What must hold: a cube that the user has not asked for stores no more than `Problem.limit`, and is a candidate only
where something is known of the data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.errors import PlanError
from weft.optimizer.candidate import Candidate, Maker
from weft.optimizer.candidate_trees import Named
from weft.optimizer.candidate_views import keep_views, weigh_views
from weft.optimizer.cubes.plan import SCHEMES, CubeKeys
from weft.optimizer.graph.tree import flat_tree
from weft.optimizer.problem import Problem
from weft.optimizer.ranges import regions as ranges

EVEN_ENOUGH = 1.25
"""A cube may keep joins up to this ratio of the busiest worker's work to the average."""
WORTH = 0.95
"""What a cube with kept joins may cost at most, relative to the same cube without them: more state must pay off."""


def candidate_cubes(problem: Problem, maker: Maker, trees: Sequence[Named]) -> list[Candidate]:
    """The cubes that may be chosen; those that only "auto" considers must not store too much."""
    known, skewed = problem.known, problem.wishes.skewed
    keys = CubeKeys(problem.query, problem.model.graph, known.statistics, skewed, known.prices)
    found = [_make_cube(problem, maker, keys, scheme) for scheme in _schemes(problem, keys)]
    if problem.strategy == "auto":
        found = [*found, *_keep_joins(problem, maker, found, trees)]
        return [candidate for candidate in found if maker.storage(candidate) <= problem.limit]
    if problem.strategy != problem.scheme:
        found = [keep_views(problem, maker, candidate) for candidate in found]
    for candidate in found:
        problem.afford(maker.storage(candidate))
    return found


def _schemes(problem: Problem, keys: CubeKeys) -> tuple[str, ...]:
    """The cubes to look at."""
    wishes = problem.wishes
    placed = wishes.placement != "keyed" or wishes.capacity is not None or bool(wishes.parallelism)
    if placed:
        _refuse_placement(problem)
    if problem.is_spread:
        return (problem.scheme,)
    weighed = problem.strategy == "auto" and problem.informed and problem.workers > 1 and not placed
    if not weighed or len(problem.query.relations) < 2:
        return ()
    return (*(f"hypercube:{scheme}" for scheme in SCHEMES), *_range_schemes(problem, keys))


def _refuse_placement(problem: Problem) -> None:
    """Only the cube itself decides where its rows lie."""
    by_hand = problem.written is not None and problem.written.spread and not problem.is_made
    if problem.is_spread or by_hand:
        raise PlanError(
            "a cube decides by itself where rows lie"
            if by_hand
            else f'strategy "{problem.strategy}" decides where rows lie',
            detail="placement, capacity and parallelism are for stores that lie in one place each.",
            hint="leave them out, or use another strategy.",
        )


def _range_schemes(problem: Problem, keys: CubeKeys) -> tuple[str, ...]:
    """Ranges are worth a look where there is no equality to hash by, and something is known of the values."""
    held = ranges.find_band(problem.query)
    if held is None or keys.keys.classes or not problem.informed:
        return ()
    known = [ranges.sample(problem.query, column, problem.known.statistics) for column in (held.left, held.right)]
    return ("two-way:equi-weight",) if all(found is not None for found in known) else ()


def _make_cube(problem: Problem, maker: Maker, keys: CubeKeys, strategy: str) -> Candidate:
    """A spread whose local joins walk the join graph."""
    if strategy in ranges.SCHEMES:
        return _cut(problem, maker, strategy)
    made = keys.plan(strategy, problem.workers)
    busy = problem.workers / made.cube.machines * made.skew_degree
    return maker.spread(strategy, flat_tree(len(problem.query.relations)), made.spread, busy)


def _cut(problem: Problem, maker: Maker, strategy: str) -> Candidate:
    """Ranges for two aliases."""
    query, workers, sizes = problem.query, problem.workers, tuple(base.size for base in problem.model.graph.relations)
    made, spread = ranges.regions(query, problem.known.statistics, workers, strategy, sizes)  # type: ignore[arg-type]
    work = [a + b for a, b in zip(made.input, made.output, strict=True)]
    busy = max(1.0, max(work, default=0.0) * workers / max(1e-9, sum(work)))
    return maker.spread(
        strategy, flat_tree(len(query.relations)), spread, busy, dict(zip((1, 2), made.copies, strict=True))
    )


def _keep_joins(
    problem: Problem, maker: Maker, cubes: Sequence[Candidate], trees: Sequence[Named]
) -> Iterator[Candidate]:
    """The best cube with joins kept in it: by the trees that have a name of their own, and all connected ones.

    Not where the cube is uneven: joins of frequent values are even more uneven, and would be stored.
    Nor where the gain is smaller than the error of the estimated sizes.
    """
    even = [c for c in cubes if c.name not in ranges.SCHEMES and c.bill.skew <= EVEN_ENOUGH]
    for best in sorted(even, key=lambda candidate: candidate.price)[:1]:
        named = [(name, tree) for name, tree in trees if name not in ("flat", "other")]
        made = [maker.spread(f"{best.name}, {name}", t, best.layout.spread, best.bill.skew) for name, t in named]
        made += weigh_views(problem, maker, best)
        yield from (candidate for candidate in made if candidate.bill.micros < WORTH * best.bill.micros)
