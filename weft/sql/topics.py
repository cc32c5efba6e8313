"""Topics of Kafka in scripts: `KAFKA 'servers' TOPIC 'topic' (option = value, ...)`.

What must hold: no secret stands in a script.  Errors quote lines of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from weft.errors import ParseError
from weft.sql.cursor import Cursor
from weft.sql.options import NAMES, START, TEXT, TEXTS, TYPES, WHOLE, Known, Options, read_assignments, read_string

TO_KAFKA: Known = {
    "value": TEXT, "key": NAMES, "registry": TEXT, "patience": TEXT, "options": TEXTS,
}  # fmt: skip
FROM_KAFKA: Known = {
    **TO_KAFKA, "key": TEXT, "key_schema": TYPES, "columns": NAMES, "start": START, "max_rows": WHOLE, "bad": TEXT,
    "bad_folder": TEXT, "on_loss": TEXT,
}  # fmt: skip
FORM = "KAFKA 'broker:9092' TOPIC 'name'"
_SECRET = re.compile(r"password|secret|token|credential|jaas|\.pem$")
"""Options that hold secrets."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of Kafka, and how it is read or written."""

    servers: str
    name: str
    options: Options = field(default_factory=dict)


def read_topic(cursor: Cursor, known: Known) -> Topic:
    """`'servers' TOPIC 'topic' (option = value, ...)`."""
    servers = read_string(cursor, "the address of a broker")
    cursor.expect("TOPIC", f"as in {FORM}.")
    name = read_string(cursor, "the name of the topic")
    options = read_assignments(cursor, known, "(option = value, ...).") if cursor.accept("(") else {}
    _refuse_secrets(options)
    return Topic(servers, name, options)


def _refuse_secrets(options: Options) -> None:
    given, registry = options.get("options"), str(options.get("registry", ""))
    values: dict[str, object] = {**given} if isinstance(given, dict) else {}
    secret = [*(name for name in values if _SECRET.search(name)), *(["registry"] if "@" in registry else [])]
    for option in secret:
        if not str(values.get(option, "")).startswith("env:"):
            error = ParseError(
                f'"{option}" is written in the script, and holds a secret',
                detail="a secret in a file is read by others.",
                hint=f"put it into an environment variable, and write {option} = 'env:NAME_OF_THE_VARIABLE'.",
            )
            error.is_placed = True  # the line that a place shows has the secret in it
            raise error
