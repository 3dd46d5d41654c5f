"""The HTTP protocol of a Label Studio ML backend: /health, /setup, /predict, /webhook, and what older versions ask for."""

import base64
import hmac
import json
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deep_patch_learning.common.errors import DataError, DplError
from deep_patch_learning.common.progress import console
from deep_patch_learning.inference.model import Model
from deep_patch_learning.labels.studio_tasks import RequestError, answer, image_of, page_of

MOST_TASKS = 256  # of one request
LARGEST_BODY = 64 << 20  # bytes
LOOPBACK = ("127.0.0.1", "::1", "localhost")  # the names of this machine, the only ones that need no password
USER = "dpl"  # of basic authentication

Handler = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass
class Backend:
    """A model that pre-labels tasks; images of local storage are read below `folder` alone."""

    model: Model
    folder: Path | None
    version: str

    def __post_init__(self) -> None:
        self._turn = threading.Lock()  # one image after another passes the network

    def health(self) -> dict[str, Any]:
        """Return that the backend is up."""
        return {"status": "UP", "model_class": "DeepPatchLearning"}

    def versions(self) -> dict[str, Any]:
        """Return the versions of the model that there are."""
        return {"versions": [self.version]}

    def metrics(self) -> dict[str, Any]:
        """Return nothing: no metric is kept."""
        return {}

    def setup(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Return the model's version, if the labelling page asks for something that it can give."""
        page_of(asked.get("schema"), self.model.classes)
        return {"model_version": self.version}

    def predict(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Return a prediction for each task; one whose image cannot be read has no regions, and an `error`."""
        page = page_of(asked.get("label_config"), self.model.classes)
        tasks = asked.get("tasks")
        if not isinstance(tasks, list) or len(tasks) > MOST_TASKS:
            found = f"{len(tasks)} tasks" if isinstance(tasks, list) else type(tasks).__name__
            raise RequestError(f"'tasks' is {found}; wanted a list of at most {MOST_TASKS}.")
        results = []
        for task in tasks:
            try:
                pixels = image_of(task, page, self.folder)
            except DataError as error:
                console.print(f"no prediction: {error}", markup=False)
                said = str(error) if isinstance(error, RequestError) else "the image cannot be read."  # names no folder
                results.append({"model_version": self.version, "score": 0.0, "result": [], "error": said})
                continue
            with self._turn:
                prediction = self.model.predict(pixels)
            results.append(answer(prediction, page, self.version))
        return {"results": results, "model_version": self.version}

    def webhook(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Return that an event arrived. Nothing is trained by it: export the annotations and run `dpl train`."""
        return {"result": "nothing to do", "action": str(asked.get("action", ""))[:80]}


def backend_app(backend: Backend, password: str | None = None) -> Any:
    """Return the ASGI application of a backend; with a password each request but /health needs it, as that of the user `dpl`."""
    try:
        from fastapi import FastAPI, Request
        from fastapi.responses import JSONResponse
        from starlette.concurrency import run_in_threadpool
    except ImportError:
        raise DplError(
            "the backend needs fastapi and uvicorn. Install: pip install 'deep-patch-learning[label-studio]'"
        ) from None
    app = FastAPI(title="Deep Patch Learning", docs_url=None, redoc_url=None, openapi_url=None)

    async def check_password(request: Request, call_next: Callable[[Request], Awaitable[Any]]) -> Any:
        if password is None and request.url.hostname not in LOOPBACK:  # another site's name that points at this machine
            return JSONResponse({"error": "this server does not go by that name"}, 421)
        if password is not None and request.url.path not in ("/", "/health") and not _allowed(request, password):
            return JSONResponse({"error": "wrong user or password"}, 401, {"WWW-Authenticate": "Basic"})
        return await call_next(request)

    app.middleware("http")(check_password)

    def get(path: str, made: Callable[[], dict[str, Any]]) -> None:
        app.add_api_route(path, made, methods=["GET"])

    def post(path: str, handler: Handler, status: int = 200) -> None:
        async def handle(request: Request) -> JSONResponse:
            try:
                found = await run_in_threadpool(handler, await _body(request))
            except RequestError as error:
                return JSONResponse({"error": str(error)}, 400)
            return JSONResponse(found, status)

        handle.__annotations__["request"] = Request
        app.add_api_route(path, handle, methods=["POST"], response_model=None)

    for path in ("/", "/health"):
        get(path, backend.health)
    get("/versions", backend.versions)
    get("/metrics", backend.metrics)
    post("/setup", backend.setup)
    post("/predict", backend.predict)
    post("/webhook", backend.webhook, 201)
    return app


async def _body(request: Any) -> dict[str, Any]:
    """Return the JSON object of a request, of which no more is read than is allowed."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise RequestError("the request is no JSON. Send Content-Type: application/json.")
    too_long = RequestError(f"the request is longer than {LARGEST_BODY >> 20} MiB. Send fewer tasks at once.")
    length = request.headers.get("content-length", "0")
    if not length.isdecimal() or len(length) > 20 or int(length) > LARGEST_BODY:
        raise too_long
    content = bytearray()
    async for part in request.stream():  # its length need not have been said
        content += part
        if len(content) > LARGEST_BODY:
            raise too_long
    try:
        found = json.loads(bytes(content))
        json.dumps(found, ensure_ascii=False).encode()  # half of a character could go into no answer
    except (ValueError, RecursionError):
        raise RequestError("the request is no JSON that can be read.") from None
    if not isinstance(found, dict):
        raise RequestError(f"the request is a {type(found).__name__}; wanted an object.")
    return found


def _allowed(request: Any, password: str) -> bool:
    wanted = base64.b64encode(f"{USER}:{password}".encode()).decode()
    return hmac.compare_digest(request.headers.get("authorization", "").encode(), f"Basic {wanted}".encode())
