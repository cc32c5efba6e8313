"""What a page may change, where that was asked for: queries are added and dropped, a run is stopped.

The session gives the functions; the console knows no session.  Whatever is done is asked for twice: the page asks the
person, and the request must name what it is about once more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from weft.errors import HostError


@dataclass(frozen=True, slots=True)
class Choice:
    """Something a viewer may choose, with its present value."""

    name: str
    label: str
    values: tuple[str, ...]
    value: Callable[[], str]


@dataclass(frozen=True, slots=True)
class Controls:
    """What can be done to a running session.  What is None cannot."""

    add: Callable[[str, str, str], None] | None = None
    """Name, SQL, folder of results."""
    drop: Callable[[str], None] | None = None
    stop: Callable[[], None] | None = None
    choices: tuple[Choice, ...] = ()
    choose: Callable[[Mapping[str, str]], None] | None = None
    """Sets some of the choices."""
    about: str = ""
    """What the choices are for."""

    def shown(self) -> dict[str, Any]:
        """What the page may offer."""
        choices = [
            {"name": one.name, "label": one.label, "values": one.values, "value": one.value()} for one in self.choices
        ]
        offers = [name for name in ("add", "drop", "stop") if getattr(self, name) is not None]
        return {"offers": offers, "choices": choices, "about": self.about}

    def act(self, what: str, asked: Mapping[str, Any]) -> None:
        """Do something; errors of the session are raised as they are."""
        if what == "choose" and self.choose is not None:
            known = {one.name: one.values for one in self.choices}
            wanted = {name: str(value) for name, value in asked.items() if str(value) in known.get(name, ())}
            return self.choose(wanted)
        _check_confirmed(what, asked)
        match what:
            case "add" if self.add is not None:
                return self.add(str(asked["query"]), str(asked["sql"]), str(asked["into"]))
            case "drop" if self.drop is not None:
                return self.drop(str(asked["query"]))
            case "stop" if self.stop is not None:
                return self.stop()
        raise HostError(
            f"this console cannot {what}",
            detail="it shows a session, and changes none.",
            hint="start the session with s.start(console=weft.Console(control=True)), or weft run --console --control.",
        )


def _check_confirmed(what: str, asked: Mapping[str, Any]) -> None:
    about = "stop" if what == "stop" else asked.get("query")
    if not about or asked.get("confirm") != about:
        raise HostError(
            f"{what} was not confirmed",
            detail="a change must be asked for twice.",
            hint=f'send "confirm" with the name of what is meant: {about!r}.',
        )
