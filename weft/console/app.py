"""The addresses of the console, as an ASGI application.

    /                       the page                    /metrics           for Prometheus
    /assets/...             what it is made of          /grafana.json      a board for Grafana
    /api/state, /api/plan, /api/queries, /api/rows, /api/history
    /events                 what is new, as server-sent events
    /api/link               a one-time link for another browser
    /api/control/...        changes, where they were asked for

What must hold: without a cookie or the token nothing is shown but how to get in, and `/metrics` on loopback.  A page of
another site cannot ask in the name of a viewer: the name of the host is checked, cookies are for this site only, and
changes need a header that other sites cannot send.  The page loads nothing from elsewhere, and the browser is told so.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from anyio import to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route

from weft.console.controls import Controls
from weft.console.feed import Feed
from weft.console.keys import COOKIE, Keys
from weft.console.metrics import read_metrics, to_prometheus
from weft.console.picture import Picture
from weft.errors import WeftError

ASSETS = Path(__file__).parent / "assets"
KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".txt": "text/plain"}
SAFE = {
    "content-security-policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
LONGEST = 14 * 86400.0

Handler = Callable[[Request], Awaitable[Response]]
REFUSED = """<!doctype html><meta charset="utf-8"><title>Weft</title><link rel="stylesheet" href="/assets/console.css">
<main class="refused"><h1>This link does not open the console</h1>
<p>A link works once, in one browser. Use the address that was printed when the console started, or ask a page that is
open for a new one: Share, at the top right.</p></main>"""


class Pages:
    """Answers for one checkpoint."""

    def __init__(
        self, picture: Picture, keys: Keys, controls: Controls, *, loopback: bool, open_link: Callable[[], str]
    ):
        self.picture, self.keys, self.controls, self.feed = picture, keys, controls, Feed(picture)
        self._loopback, self._open_link = loopback, open_link

    def app(self) -> Starlette:
        """The application."""
        show: dict[str, Handler] = {
            "/api/state": self.state, "/api/plan": self.plan, "/api/queries": self.queries, "/api/rows": self.rows,
            "/api/history": self.history, "/events": self.events, "/grafana.json": self.grafana,
        }  # fmt: skip
        change: dict[str, Handler] = {"/api/link": self.link, "/api/control/{what}": self.control}
        routes = [Route("/", self.page), Route("/assets/{name}", self._safe(self.asset))]
        routes += [Route("/metrics", self._safe(self.metrics if self._loopback else self._known(self.metrics)))]
        routes += [Route(path, self._safe(self._known(handler))) for path, handler in show.items()]
        routes += [
            Route(path, self._safe(self._known(self._ours(handler))), methods=["POST"])
            for path, handler in change.items()
        ]
        return Starlette(routes=routes)

    # ------------------------------------------------------------------------------------------- admission

    def _safe(self, handler: Handler) -> Handler:
        async def answer(request: Request) -> Response:
            host = request.headers.get("host", "").rpartition(":")[0] or request.headers.get("host", "")
            if self._loopback and host not in LOOPBACK:
                return PlainTextResponse("this console answers on loopback only", 421)
            response = await handler(request)
            response.headers.update(SAFE)
            return response

        return answer

    def _known(self, handler: Handler) -> Handler:
        async def answer(request: Request) -> Response:
            return await handler(request) if self._admits(request) else PlainTextResponse("open the console first", 401)

        return answer

    def _ours(self, handler: Handler) -> Handler:
        """Only for requests of our own page: others cannot set this header without being asked for permission."""

        async def answer(request: Request) -> Response:
            if request.headers.get("x-weft") != "1":
                return PlainTextResponse("a header is missing", 403)
            return await handler(request)

        return answer

    def _admits(self, request: Request) -> bool:
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        return self.keys.admits(request.cookies.get(COOKIE), bearer if scheme.lower() == "bearer" else None)

    # ------------------------------------------------------------------------------------------------ page

    async def page(self, request: Request) -> Response:
        """The page, for those who may look; a link is exchanged for a cookie."""
        return await self._safe(self._page)(request)

    async def _page(self, request: Request) -> Response:
        if "token" in request.query_params:
            cookie = self.keys.redeem(request.query_params["token"])
            if cookie is None and not self._admits(request):
                return HTMLResponse(REFUSED, 401)
            answer = RedirectResponse("/", 303)
            if cookie is not None:
                answer.set_cookie(COOKIE, cookie, httponly=True, samesite="strict")
            return answer
        return (
            HTMLResponse((ASSETS / "index.html").read_text()) if self._admits(request) else HTMLResponse(REFUSED, 401)
        )

    async def asset(self, request: Request) -> Response:
        """A file of the page."""
        path = ASSETS / request.path_params["name"]
        if path.parent != ASSETS or path.suffix not in KINDS or not path.is_file():
            return PlainTextResponse("there is no such file", 404)
        return Response(path.read_bytes(), media_type=KINDS[path.suffix])

    # ------------------------------------------------------------------------------------------------ data

    async def state(self, _request: Request) -> Response:
        """What a new viewer needs."""
        return _json({**self.picture.state(), "control": self.controls.shown()})

    async def plan(self, _request: Request) -> Response:
        """The plan and its numbers."""
        return _json(self.picture.plan())

    async def queries(self, _request: Request) -> Response:
        """All queries."""
        return _json(self.picture.queries())

    async def rows(self, request: Request) -> Response:
        """The last rows of a query."""
        return _json(await to_thread.run_sync(self.picture.rows, request.query_params.get("query", "")))

    async def history(self, request: Request) -> Response:
        """Curves of a longer time."""
        try:
            span = float(request.query_params.get("seconds", 3600))
        except ValueError:
            return JSONResponse({"error": "seconds must be a number"}, 400)
        return _json(self.picture.history(min(max(span, 60.0), LONGEST)))

    async def events(self, _request: Request) -> Response:
        """What is new."""
        return StreamingResponse(self.feed.follow(), media_type="text/event-stream")

    async def metrics(self, _request: Request) -> Response:
        """All numbers for Prometheus."""
        text = to_prometheus(read_metrics(self.picture))
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def grafana(self, _request: Request) -> Response:
        """A board for Grafana."""
        return Response((ASSETS / "grafana.json").read_bytes(), media_type="application/json")

    # --------------------------------------------------------------------------------------------- changes

    async def link(self, _request: Request) -> Response:
        """A link for another browser."""
        return _json({"link": self._open_link()})

    async def control(self, request: Request) -> Response:
        """A change of the session."""
        try:
            asked = await request.json()
            await to_thread.run_sync(self.controls.act, request.path_params["what"], asked)
        except WeftError as error:
            return JSONResponse({"error": error.message, "detail": error.detail, "hint": error.hint}, 409)
        except (ValueError, KeyError, AttributeError) as error:
            return JSONResponse({"error": "the request cannot be read", "detail": str(error), "hint": None}, 400)
        return _json({"done": True, "control": self.controls.shown()})


def _json(value: Any) -> Response:
    return Response(json.dumps(value, separators=(",", ":"), default=str), media_type="application/json")
