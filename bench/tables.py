"""The figures of `bench.plans` as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bench.papers import Beside
from bench.runs import Figures
from weft.observe.progress import human_bytes

Timed = Mapping[str, Mapping[str, Figures]]
"""Workload -> strategy -> figures."""
TOLERANCE = 0.05
"""How far counts may lie from the model on uniform data."""
TARGET = 1.10
"""How much slower than the best plan the automatic choice may be."""

_HOLDS = {True: "yes", False: "NO", None: ""}


def plans(timed: Timed) -> Iterator[str]:
    """One line per workload and strategy."""
    yield (
        f"  {'workload':<9} {'strategy':<10} {'rows/s':>10} {'seconds':>8} {'model':>7} {'stored':>11} {'model':>6} "
        f"{'sent':>12} {'model':>6} {'peak state':>10}  answer  plan"
    )
    for found in timed.values():
        for f in found.values():
            yield (
                f"  {f.workload:<9} {f.label:<10} {f.speed:>10,.0f} {f.seconds:>8.2f} {f.model_seconds:>7.2f} "
                f"{f.stored:>11,} {_off(f.stored, f.model_stored):>6} {f.sent:>12,} {_off(f.sent, f.model_sent):>6} "
                f"{human_bytes(f.peak_bytes):>10}  {_answer(f)}   {f.plan}"
            )


def counts(counted: Sequence[Figures]) -> Iterator[str]:
    """One line per chain, capacity and plan."""
    yield (
        f"  {'chain':<10} {'plan':<10} {'capacity':>9} {'tasks':>6} {'stored':>11} {'model':>6} "
        f"{'sent':>13} {'model':>6} {'exchanged':>13}  answer"
    )
    for f in counted:
        yield (
            f"  {f.workload:<10} {f.label:<10} {f.capacity:>9,.0f} {f.tasks:>6,} {f.stored:>11,} "
            f"{_off(f.stored, f.model_stored):>6} {f.sent:>13,} {_off(f.sent, f.model_sent):>6} {f.exchanged:>13,}"
            f"  {_answer(f)}"
        )


def tasks_lines(figures: Sequence[Figures]) -> Iterator[str]:
    """One line per plan and number of tasks."""
    yield f"  {'workload':<9} {'plan':<14} {'rows/s':>10} {'seconds':>8} {'sent':>12}  answer"
    for f in figures:
        yield f"  {f.workload:<9} {f.label:<14} {f.speed:>10,.0f} {f.seconds:>8.2f} {f.sent:>12,}  {_answer(f)}"


def beside(rows: Sequence[Beside]) -> Iterator[str]:
    """One line per number of the paper."""
    yield f"  {'id':<4} {'what':<72} {'paper':>7} {'model':>7} {'ours':>7} {'off':>6}  holds"
    for row in rows:
        off = "" if row.model is None else _off(row.measured, row.model)
        yield (
            f"  {row.id:<4} {row.what:<72} {_number(row.paper):>7} {_number(row.model):>7} {row.measured:>7.3f} "
            f"{off:>6}  {_HOLDS[row.holds]}"
        )


def outliers(figures: Sequence[Figures]) -> Iterator[str]:
    """The counts that lie too far from the model."""
    for f in figures:
        for what, ours, model in (("stored", f.stored, f.model_stored), ("sent", f.sent, f.model_sent)):
            if abs(ours - model) > TOLERANCE * model:
                yield f"  {f.workload} {f.label}: {what} {ours:,}, the model says {model:,.0f} ({_off(ours, model)})"


def verdicts(timed: Timed) -> Iterator[str]:
    """One line per workload: the best plan, and how near the automatic choice comes."""
    for name, found in timed.items():
        if "auto" not in found:
            continue
        best = min(found.values(), key=lambda f: f.seconds)
        auto = found["auto"]
        same = [label for label, f in found.items() if f.plan == auto.plan and label != "auto"]
        ratio = auto.seconds / best.seconds
        mark = "" if ratio <= TARGET else f"   MISSED, at most {TARGET:.2f}"
        like = f" (as {', '.join(same)})" if same else ""
        yield f"  {name:<9} best {best.label:<10} auto {auto.plan}{like}: {ratio:.2f} times the best{mark}"


def _off(ours: float, model: float) -> str:
    """By how much ours differs from the model's."""
    return f"{ours / model - 1:+.1%}" if model else "" if not ours else "new"


def _answer(f: Figures) -> str:
    return "right" if f.right else "WRONG"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
