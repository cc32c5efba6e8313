"""The solver HiGHS: the only module that touches it, and only when something is solved.

Numbers go over in whole arrays.  One thread and a fixed seed: equal programs give equal answers, unless time runs out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.errors import InternalError
from weft.optimizer.joint.program import Floats, Program

LARGE = 20_000
"""Entries from which on the relaxation is solved by an interior point method instead of the simplex method."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the solver found."""

    values: Floats | None
    """Of all columns; None if nothing was found."""
    bound: float
    """No values cost less."""
    finished: bool
    """Whether it ended by itself, not by the time limit."""


class Solver:
    """A program in the solver: first relaxed, then whole."""

    def __init__(self, program: Program, *, threads: int, seed: int) -> None:
        import highspy  # loading it takes longer than most planning does

        names: Any = highspy
        self._program, self._highs, self._names = program, names.Highs(), names
        for option, value in (("output_flag", False), ("random_seed", seed), ("threads", threads)):
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

    def relax(self, time_limit: float) -> Answer:
        """The best values if columns need not be whole."""
        large = len(self._program.columns) > LARGE
        self._highs.setOptionValue("solver", "ipm" if large else "choose")
        self._highs.setOptionValue("run_crossover", "off" if large else "on")
        return self._run(time_limit)

    def solve(self, time_limit: float, gap: float, start: Floats | None) -> Answer:
        """The best values whose first columns are whole."""
        whole = np.arange(self._program.whole, dtype=np.int32)
        self._highs.changeColsIntegrality(len(whole), whole, np.ones(len(whole), np.uint8))
        self._highs.setOptionValue("solver", "choose")
        self._highs.setOptionValue("run_crossover", "on")
        self._highs.setOptionValue("mip_rel_gap", gap)
        if start is not None:
            self._highs.setSolution(len(start), np.arange(len(start), dtype=np.int32), start)
        return self._run(time_limit, mip=True)

    def _run(self, time_limit: float, mip: bool = False) -> Answer:
        self._highs.zeroAllClocks() if hasattr(self._highs, "zeroAllClocks") else None
        self._highs.setOptionValue("time_limit", self._highs.getRunTime() + max(time_limit, 0.0))
        self._highs.run()
        status, info = self._highs.getModelStatus(), self._highs.getInfo()
        finished = status == self._names.HighsModelStatus.kOptimal
        if status == self._names.HighsModelStatus.kInfeasible:
            return Answer(None, np.inf, True)
        solution: Any = self._highs.getSolution()
        values = np.array(solution.col_value) if solution.value_valid else None
        bound = info.mip_dual_bound if mip else info.objective_function_value if finished else -np.inf
        return Answer(values, float(bound), finished)
