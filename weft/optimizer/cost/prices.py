"""What the parts of a micro-batch cost on the host, in seconds.

    seconds of a batch = batch + wave * (waves - 1) + (sum of what is counted times its price) / cores

`wave` and `batch` are wall time, whatever the batch holds.  All other prices are seconds of one core for one tuple,
pair or result, so work that is spread evenly over the workers is divided by the number of workers that run at once.

The shipped prices were measured on a machine with 2 cores, next to other work; docs/calibrate.md says how, and how much
they varied.  `weft calibrate` measures the machine at hand and leaves a file in the user's cache.  The file is named
after the machine, since several machines may share a home.

What must hold: a plan never fails because of that file.  If it is damaged, a warning says so and the shipped prices
are used.  Prices are positive: a plan must not become better by doing more.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from weft.errors import PlanError, SinkError

SHIPPED = "shipped"
BATCH_ROWS = 100_000.0
"""Assumed rows of a micro-batch where the user does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Prices of one host, all in seconds."""

    wave: float = 0.04
    """Each further wave of a micro-batch on Spark, whatever it carries; wall time."""
    batch: float = 0.19
    """A micro-batch of one wave that carries next to nothing, Spark's own work between batches included; wall time."""
    sent: float = 2.7e-7
    """One copy of a tuple of 5 columns through the exchange: routed, packed, shuffled, unpacked."""
    probed: float = 1.45e-7
    """One tuple looking into one store of 4 segments: key codes, and a lookup in the index of each segment."""
    checked: float = 8.5e-9
    """One candidate pair whose residual predicate is evaluated, or that a nested loop meets."""
    matched: float = 4.4e-8
    """One match made: 5 columns gathered, one of them a string."""
    stored: float = 1.7e-7
    """One tuple of 4 columns stored: indexed and written, and written again by each of two merges."""
    emitted: float = 7.7e-8
    """One result of 5 columns written to the Parquet sink."""
    source: str = SHIPPED
    """Where the prices are from, for people: "shipped", or "calibrated on 2026-11-15"."""

    def __post_init__(self) -> None:
        for name in NAMES:
            price = getattr(self, name)
            if isinstance(price, bool) or not isinstance(price, int | float) or not 0 < price < math.inf:
                raise PlanError(f'the price "{name}" is {price!r}', hint="a price is a positive number of seconds.")

    @staticmethod
    def load(environ: Mapping[str, str] | None = None, machine: Machine | None = None) -> Prices:
        """The prices of this machine if it was calibrated, else the shipped ones."""
        try:
            path = _path(environ, machine)
        except RuntimeError:
            return Prices()  # the user has no home
        try:
            return Prices.from_plain(json.loads(path.read_text(encoding="utf-8"))["prices"])
        except (FileNotFoundError, NotADirectoryError):
            return Prices()  # nobody has calibrated
        except (OSError, ValueError, TypeError, KeyError, PlanError) as error:
            return _fallback(path, error)

    def save(self, environ: Mapping[str, str] | None = None, machine: Machine | None = None) -> Path:
        """Save the prices for this machine, all or nothing, and return the path of the file."""
        machine = machine or Machine.this()
        content = {"machine": asdict(machine), "prices": self.plain()}
        try:
            path = _path(environ, machine)
            path.parent.mkdir(parents=True, exist_ok=True)
            aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
            with open(aside, "w", encoding="utf-8") as file:
                json.dump(content, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            os.replace(aside, path)
        except (OSError, RuntimeError) as error:
            hint = "set XDG_CACHE_HOME to a folder that can be written."
            raise SinkError("the prices cannot be saved", detail=f"{error}.", hint=hint) from error
        return path

    def plain(self) -> dict[str, Any]:
        """The prices as JSON-able data."""
        return asdict(self)

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> Prices:
        """The prices that :meth:`plain` described; nothing may be missing or unknown."""
        wanted = {*NAMES, "source"}
        if odd := sorted(wanted ^ set(plain)):
            raise PlanError(f"prices are missing or unknown: {', '.join(odd)}")
        return Prices(**plain)


NAMES = tuple(field.name for field in fields(Prices) if field.name != "source")
"""All prices, in the order in which they are shown."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What prices are valid for."""

    node: str
    cores: int
    model: str
    """Of the CPU."""

    @staticmethod
    def this() -> Machine:
        """The machine this process runs on."""
        return Machine(platform.node(), os.cpu_count() or 1, _cpu_model())

    @property
    def key(self) -> str:
        """Names the machine in file names."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:12]


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()


def _path(environ: Mapping[str, str] | None, machine: Machine | None) -> Path:
    cache = (os.environ if environ is None else environ).get("XDG_CACHE_HOME")
    folder = Path(cache) if cache else Path.home() / ".cache"
    return folder / "weft" / f"prices-{(machine or Machine.this()).key}.json"


def _fallback(path: Path, error: Exception) -> Prices:
    said = error.message if isinstance(error, PlanError) else f"{type(error).__name__}: {error}"
    warnings.warn(
        f"the calibrated prices in {path} cannot be used; the shipped ones are used instead\n"
        f"detail: {said}\nhint: run weft calibrate again, or remove the file.",
        stacklevel=3,
    )
    return Prices()
