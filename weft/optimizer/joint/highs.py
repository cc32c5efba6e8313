"""The solver HiGHS: the only module that touches it, and only when something is solved.

Relaxations are solved by the dual simplex method.  When columns have been fixed it goes on from where it was, which
takes a tenth of the time.

Numbers go over in whole arrays.  One thread and a fixed seed: equal programs give equal answers, unless time runs out.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.errors import InternalError
from weft.optimizer.joint.program import Floats, Program


@dataclass(frozen=True, slots=True)
class Answer:
    """What the solver found."""

    values: Floats | None
    """Of all columns; None if there are none, or none below the limit, or time ran out."""
    bound: float
    """No values cost less; infinity if there are none."""
    basis: Any
    """Where the solver was in the end; it can go on from there."""


class Solver:
    """A program in the solver."""

    def __init__(self, program: Program) -> None:
        import highspy  # loading it takes longer than most planning does

        names: Any = highspy
        self._program, self._highs, self._names = program, names.Highs(), names
        for option, value in (("output_flag", False), ("random_seed", 0), ("threads", 1), ("solver", "simplex")):
            self._highs.setOptionValue(option, value)
        self._pass(program)

    def _pass(self, program: Program) -> None:
        columns, rows = program.variables, len(program.lower)
        upper = np.full(columns, np.inf)
        upper[: program.whole] = 1.0
        status = self._highs.passModel(
            columns,
            rows,
            len(program.columns),
            int(self._names.MatrixFormat.kRowwise),
            int(self._names.ObjSense.kMinimize),
            0.0,
            program.costs,
            np.zeros(columns),
            upper,
            program.lower,
            program.upper,
            program.starts[:-1],
            program.columns,
            program.values,
            np.zeros(columns, np.int32),
        )
        if status == self._names.HighsStatus.kError:
            raise InternalError("the solver refused the integer program of a flow problem")

    def relax(self, fixed: Mapping[int, float], basis: Any, limit: float, deadline: float) -> Answer:
        """The best values if columns need not be whole, given those of some columns.

        Starts from a basis, or from where it was; gives up when they cost more than the limit, or time is up.
        """
        self._fix(fixed)
        if basis is not None:
            self._highs.setBasis(basis)
        self._highs.setOptionValue("objective_bound", limit)
        status = self._run(deadline)
        if status == self._names.HighsModelStatus.kOptimal:
            return Answer(self._values(), self._highs.getInfo().objective_function_value, self._highs.getBasis())
        none = self._names.HighsModelStatus.kInfeasible, self._names.HighsModelStatus.kObjectiveBound
        return Answer(None, np.inf if status in none else -np.inf, None)

    def solve(self, start: Floats | None, gap: float, deadline: float) -> Answer:
        """The best values whose first columns are whole; relaxations cannot be asked for afterwards."""
        self._fix({})
        whole = np.arange(self._program.whole, dtype=np.int32)
        self._highs.changeColsIntegrality(len(whole), whole, np.ones(len(whole), np.uint8))
        for option, value in (("solver", "choose"), ("objective_bound", np.inf), ("mip_rel_gap", gap)):
            self._highs.setOptionValue(option, value)
        if start is not None:
            self._highs.setSolution(len(start), np.arange(len(start), dtype=np.int32), start)
        if self._run(deadline) == self._names.HighsModelStatus.kInfeasible:
            return Answer(None, np.inf, None)
        found = self._highs.getSolution().value_valid
        return Answer(self._values() if found else None, self._highs.getInfo().mip_dual_bound, None)

    def _fix(self, fixed: Mapping[int, float]) -> None:
        """Fix some columns, and no others."""
        lower, upper = np.zeros(self._program.whole), np.ones(self._program.whole)
        columns = np.fromiter(fixed, np.int32, len(fixed))
        lower[columns] = upper[columns] = np.fromiter(fixed.values(), float, len(fixed))
        self._highs.changeColsBounds(len(lower), np.arange(len(lower), dtype=np.int32), lower, upper)

    def _run(self, deadline: float) -> Any:
        self._highs.setOptionValue("time_limit", self._highs.getRunTime() + max(deadline - time.monotonic(), 0.0))
        self._highs.run()
        return self._highs.getModelStatus()

    def _values(self) -> Floats:
        return np.array(self._highs.getSolution().col_value)
