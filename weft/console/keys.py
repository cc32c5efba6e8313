"""Who may look: one-time links, cookies that they are exchanged for, and a token for programs.

A link works once.  Whoever opens it gets a cookie for this browser, and the address without the token.  More links come
from a page that is open, or from `Console.link()`.  On loopback, `/metrics` needs nothing; on any other address
everything needs a cookie or the token.
"""

from __future__ import annotations

import hmac
import os
import secrets

COOKIE = "weft_console"
VARIABLE = "WEFT_CONSOLE_TOKEN"
"""Environment variable with the token for programs; without it there is a new one for each console."""


class Keys:
    """The keys of one console."""

    def __init__(self, token: str | None = None) -> None:
        self.token = token or os.environ.get(VARIABLE) or secrets.token_urlsafe(24)
        self._links: set[str] = set()
        self._cookies: set[str] = set()

    def mint(self) -> str:
        """A new one-time token."""
        made = secrets.token_urlsafe(24)
        self._links.add(made)
        return made

    def redeem(self, link: str) -> str | None:
        """The cookie for a one-time token; None if it is unknown or was used."""
        if link not in self._links:
            return None
        self._links.discard(link)
        cookie = secrets.token_urlsafe(24)
        self._cookies.add(cookie)
        return cookie

    def admits(self, cookie: str | None, bearer: str | None) -> bool:
        """Whether a cookie or a token opens the console."""
        if bearer is not None and hmac.compare_digest(bearer.encode(), self.token.encode()):
            return True
        return cookie in self._cookies
