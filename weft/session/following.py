"""Who follows every run: the history beside the checkpoint, the log, and who writes down the plan that runs.

The plan is written with what it was chosen from and what it was expected to do.  So whoever looks at a checkpoint, with
or without the session, sees what explain shows.
"""

from __future__ import annotations

import json
import logging
import os
import time
from textwrap import dedent
from typing import TYPE_CHECKING, Any

from weft.errors import WeftError
from weft.explain import STAGES, Subject
from weft.explain.data import plain
from weft.observe.history import History, plan_file
from weft.observe.listener import Listener
from weft.observe.logs import Log
from weft.observe.notice import Notice
from weft.observe.progress import Progress

if TYPE_CHECKING:
    from weft.session.session import Session

log = logging.getLogger("weft.history")


def listen(session: Session) -> tuple[Listener, ...]:
    """The listeners of a run."""
    root = session.checkpoint.root
    return History(root), Log(root), PlanKeeper(session)


class PlanKeeper:
    """Writes down the plan when a run begins, and when it has changed."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def begin(self, every: float | None) -> None:  # noqa: ARG002
        """The run begins."""
        self._write()

    def note(self, progress: Progress) -> None:
        """A batch changes no plan."""

    def tell(self, notice: Notice) -> None:
        """A notice may be that the plan has changed."""
        if notice.kind == "plan-changed":
            self._write()

    def end(self, how: str, why: str | None) -> None:
        """The plan stays, for those who look at it later."""

    def _write(self) -> None:
        path = plan_file(self._session.checkpoint.root)
        try:
            text = json.dumps(describe_plan(self._session), separators=(",", ":"))
            path.parent.mkdir(parents=True, exist_ok=True)
            aside = path.with_name(f".{path.name}")
            aside.write_text(text)
            os.replace(aside, path)
        except (OSError, WeftError) as error:
            log.warning("the plan cannot be written for the console: %s", error)


def describe_plan(session: Session) -> dict[str, Any]:
    """The plan of a session, what it was chosen from, and its queries as they were written."""
    with session.lock:
        handles = dict(session.queries)
        queries = {name: handle.query for name, handle in handles.items()}
        drafts = {name: handle.draft for name, handle in handles.items()}
        choices, topology = session.choices, session.topology
    subject = Subject(queries, drafts, lambda: choices, lambda: topology)
    return {
        "at": time.time(),
        "topology": plain(STAGES["topology"](subject)),
        "candidates": plain(STAGES["candidates"](subject)),
        "queries": {
            name: {"text": handle.text and dedent(handle.text).strip(), "into": [str(sink) for sink in handle.sinks]}
            for name, handle in handles.items()
        },
    }
