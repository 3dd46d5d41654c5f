"""The server of the review page: routes, errors, and where it listens."""

import mimetypes
import socket
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from deep_patch_learning.common.errors import DplError, SettingError
from deep_patch_learning.review import actions, work
from deep_patch_learning.review.access import MISTAKE, Access, Guard
from deep_patch_learning.review.changes import ConflictError, MissingError
from deep_patch_learning.review.pixels import Pixels, in_address, square
from deep_patch_learning.review.requests import Action, Called, Id, Next, Pulse, Screen, Turn
from deep_patch_learning.review.store import ReviewStore
from deep_patch_learning.review.summary import Summary

STATIC = Path(__file__).with_name("static")
_FOREVER = {"cache-control": "private, max-age=31536000, immutable"}
_ASK_AGAIN = {"cache-control": "no-cache"}


def make_app(store: ReviewStore, access: Access) -> Any:
    """Return the application that serves a store, behind its guard."""
    app = FastAPI(title="dpl review", docs_url=None, redoc_url=None, openapi_url=None)
    _errors(app)
    _page(app)
    _reading(app, store)
    _writing(app, store)
    return Guard(app, access)


def _page(app: FastAPI) -> None:
    """The page's own files. They are read once: no request opens a file by its name."""
    mimetypes.add_type("text/javascript", ".js")
    files = {path.relative_to(STATIC).as_posix(): path for path in STATIC.rglob("*") if path.is_file()}
    read = {name: (path.read_bytes(), mimetypes.guess_type(name)[0]) for name, path in files.items()}

    @app.get("/")
    async def front() -> Response:
        return Response(read["index.html"][0], media_type="text/html", headers=_ASK_AGAIN)

    @app.get("/static/{name:path}")
    async def static(name: str) -> Response:
        if name not in read:
            raise MissingError(f"there is no file {name}")
        content, kind = read[name]
        return Response(content, media_type=kind or "text/plain", headers=_ASK_AGAIN)


def _must_be(store: ReviewStore, review: str | None) -> None:
    """Refuse what a page that was opened from another review asks of the port that is now this one's."""
    if review != store.about.get("id"):
        raise HTTPException(412, "another review is served here now. Open the link that the terminal shows.")


def _reading(app: FastAPI, store: ReviewStore) -> None:
    summary, pixels = Summary(store), Pixels(store)

    def pixels_response(review: str | None, make: Callable[[], bytes]) -> Response:
        """Return an image; only one whose address names the review is kept, as no other review can have that address."""
        if review is not None:
            _must_be(store, review)
        return Response(make(), media_type="image/jpeg", headers=_ASK_AGAIN if review is None else _FOREVER)

    def crop_response(review: str | None, at: str | None, number: int) -> Response:
        """Return a crop; only one whose address names the corners that it has is kept, as a box may move."""
        if review is not None:
            _must_be(store, review)
        corners, made = pixels.crop_with_corners(number)
        kept = review is not None and at == in_address(corners)
        return Response(made, media_type="image/jpeg", headers=_FOREVER if kept else _ASK_AGAIN)

    @app.get("/api/state")
    def state(request: Request) -> Any:
        reviewer = request.scope["reviewer"]
        with store.reading() as file:
            turns = actions.can_turn(file, reviewer)
        about = {name: store.about.get(name) for name in ("title", "kind", "id")}
        return {**summary.get(), **about, "you": work.name_of(store, reviewer), "can": turns}

    @app.post("/api/screen")
    def screen(asked: Screen, request: Request) -> Any:
        found = work.screen(store, asked, request.scope["reviewer"])
        for box in found["boxes"]:
            box["shown"] = square(tuple(box["corners"]), box["width"], box["height"])
            box["at"] = in_address(box["corners"])
        return found

    @app.post("/api/next")
    def next_image(asked: Next, request: Request) -> Any:
        return work.next_image(store, asked, request.scope["reviewer"])

    @app.post("/api/pulse")
    def pulse(asked: Pulse, request: Request) -> Any:
        work.pulse(store, asked, request.scope["reviewer"])
        return state(request)

    @app.get("/api/images/{number}")
    def image(number: Id, tab: str, request: Request) -> Any:
        return work.image(store, number, request.scope["reviewer"], tab)

    @app.get("/images/{number}/{side}")
    def pixels_of_image(number: Id, side: int, of: str | None = None) -> Response:
        return pixels_response(of, lambda: pixels.image(number, side))

    @app.get("/crops/{number}")
    def crop(number: Id, of: str | None = None, at: str | None = None) -> Response:
        return crop_response(of, at, number)


def _writing(app: FastAPI, store: ReviewStore) -> None:
    def same_review(request: Request) -> None:
        _must_be(store, request.headers.get("x-review", store.about.get("id")))

    ours = [Depends(same_review)]

    @app.post("/api/actions", dependencies=ours)
    def act(action: Action, request: Request) -> Any:
        return actions.apply(store, action, request.scope["reviewer"])

    @app.post("/api/undo", dependencies=ours)
    def undo(asked: Turn, request: Request) -> Any:
        return actions.turn(store, asked.id, request.scope["reviewer"], back=True)

    @app.post("/api/redo", dependencies=ours)
    def redo(asked: Turn, request: Request) -> Any:
        return actions.turn(store, asked.id, request.scope["reviewer"], back=False)

    @app.post("/api/name")
    def name(asked: Called, request: Request) -> Any:
        work.rename(store, request.scope["reviewer"], asked.name)
        return {"you": work.name_of(store, request.scope["reviewer"])}

    @app.exception_handler(ConflictError)
    def conflict(request: Request, error: ConflictError) -> JSONResponse:
        by = work.changed_by(store, error.versions)
        images = [
            {"image": number, "version": version, "by": by.get(number)} for number, version in error.versions.items()
        ]
        return JSONResponse({"error": str(error), "conflicts": images}, 409)


def _errors(app: FastAPI) -> None:
    """Every error is one readable sentence."""

    def answer(status: int) -> Callable[[Request, Exception], JSONResponse]:
        return lambda request, error: JSONResponse({"error": _sentence(error)}, status)

    app.add_exception_handler(MissingError, answer(404))
    app.add_exception_handler(actions.RefusedError, answer(422))
    app.add_exception_handler(DplError, answer(404))  # an image that cannot be read any more
    app.add_exception_handler(sqlite3.Error, answer(503))

    @app.exception_handler(Exception)  # the guard says more in the terminal
    def mistake(request: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"error": MISTAKE}, 500)

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        return JSONResponse({"error": f"{place}: {first['msg']}"}, 422)

    @app.exception_handler(HTTPException)
    def other(request: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"error": str(error.detail)}, error.status_code)


def _sentence(error: Exception) -> str:
    if isinstance(error, sqlite3.Error):
        return f"the store cannot be read or written: {error}"
    return str(error)


def listen(host: str, port: int | None) -> socket.socket:
    """Return a socket that listens; without a `port` the first free one from 8765 on."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    wanted = [port] if port is not None else [*range(8765, 8785), 0]
    for number in wanted:
        # asyncio sends at once only where the protocol is named: else an answer's second part waits 40 ms for the first's receipt
        sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((host, number))
            sock.listen(256)
        except OSError as error:
            sock.close()
            if number == wanted[-1]:
                what = f"--port {number}" if port is not None else f"--host {host}"
                reason = error.strerror or error
                raise SettingError(f"{what}: cannot be used ({reason}). Give another one.") from None
        else:
            return sock
    raise AssertionError("the last one returns or raises")


def server_of(app: Any) -> uvicorn.Server:
    """Return the server of an application; it runs until it is asked to stop."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=5,
        )
    )
