"""What differs between two descriptions of the same thing, for people: the parts that differ, not the whole twice."""

from __future__ import annotations

from collections.abc import Iterator


def say_difference(old: object, new: object) -> str:
    """What a checkpoint has and a session has not, and the other way round.

    >>> say_difference("a.k = b.k AND a.v > 1", "a.k = b.k AND a.v > 2")
    'the checkpoint has a.v > 1, this session a.v > 2; the rest is the same'
    >>> say_difference("k int64", "k int64, v int64")
    'this session also has v int64; the rest is the same'
    """
    if not isinstance(old, str) or not isinstance(new, str) or not old or not new:
        return f"the checkpoint has {old or 'none'}, this session {new or 'none'}"
    before, after = list(_parts(old)), list(_parts(new))
    gone, come = [part for part in before if part not in after], [part for part in after if part not in before]
    if not gone and not come:
        return f"the same parts in another order; the checkpoint has {old}"
    rest = "; the rest is the same" if len(gone) < len(before) else ""
    if not gone or not come:
        more, what = ("this session", come) if come else ("the checkpoint", gone)
        return f"{more} also has {' and '.join(what)}{rest}"
    return f"the checkpoint has {' and '.join(gone)}, this session {' and '.join(come)}{rest}"


def _parts(text: str) -> Iterator[str]:
    """The text, cut at commas and ANDs that stand in no brackets and no quotes."""
    start = depth = at = 0
    quote = ""
    while at < len(text):
        mark = text[at]
        if quote:
            quote = "" if mark == quote else quote
        elif mark in "'\"":
            quote = mark
        elif mark in "([":
            depth += 1
        elif mark in ")]":
            depth -= 1
        elif depth == 0 and (cut := next((word for word in (", ", " AND ") if text.startswith(word, at)), "")):
            yield text[start:at]
            start = at + len(cut)
            at = start
            continue
        at += 1
    yield text[start:]
