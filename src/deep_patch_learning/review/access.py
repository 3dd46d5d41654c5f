"""Who may enter: names of the host, origins, the cookie, the token, and the size of what is sent. Checked before anything else.

A page on another site can make a browser send requests to this server, also under a name of its own that it points at this
machine. Such a request has a foreign Host, a foreign Origin, or lacks the cookie, which is same-site.
"""

import hashlib
import hmac
import ipaddress
import os
import secrets
import socket
import time
import traceback
from dataclasses import dataclass, field
from html import escape
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from starlette.exceptions import HTTPException

from deep_patch_learning.common.errors import SettingError, short
from deep_patch_learning.common.progress import console

COOKIE = "dpl_review"  # the start of its name: a browser sends the cookies of all ports of a host
KEY_BYTES = 32
MOST_BYTES = 256 * 1024  # of a request's body
MISTAKE = "the server made a mistake. The terminal says more."
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_WITHOUT_COOKIE = ("/", "/static/")  # the empty page: it holds nothing of the data

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_token(token: str | None) -> None:
    """Raise `SettingError` for a token that is no word: it would open the page to everyone."""
    if token is not None and not token.strip():
        raise SettingError("--token: is empty. Give a word, or leave it out: where one is needed, it is made.")


@dataclass(frozen=True)
class Access:
    """What a request must have. `token` is None where none is asked for, on loopback; `key` signs cookies."""

    host: str
    token: str | None
    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    names: frozenset[str] = field(init=False)  # asked of the system once: each question may wait for a name server

    def __post_init__(self) -> None:
        check_token(self.token)
        local = is_loopback(self.host)
        if self.token is None and not local:
            raise SettingError(f"--host {self.host}: others can reach this address, so that a token is needed.")
        names = () if local else (socket.gethostname().lower(), socket.getfqdn().lower())
        object.__setattr__(self, "names", frozenset(names))  # it is frozen

    def knows(self, name: str) -> bool:
        """Return whether a Host header without its port names this server, not one that somebody else's DNS points here."""
        if name in _LOOPBACK or name == self.host.lower():
            return True
        if is_loopback(self.host):
            return False
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in self.names
        return True  # an address is no name that can be pointed elsewhere

    @property
    def cookie(self) -> str:
        """The name of the cookie: that of another store, or of another token, is another one."""
        text = f"cookie\n{self.token or ''}".encode()
        return f"{COOKIE}_{hmac.new(self.key, text, hashlib.sha256).hexdigest()[:16]}"

    def signed(self, reviewer: str) -> str:
        """Return the cookie of a reviewer."""
        return f"{reviewer}.{self._signature(reviewer)}"

    def reviewer(self, cookie: str | None) -> str | None:
        """Return the reviewer whose cookie this is; None where it was not made here, or with another token."""
        reviewer, _, signature = (cookie or "").partition(".")
        good = hmac.compare_digest(signature.encode(), self._signature(reviewer).encode())
        return reviewer if reviewer and good else None

    def opens(self, token: str | None) -> bool:
        """Return whether a token opens the page."""
        if self.token is None:
            return True
        return bool(token) and hmac.compare_digest((token or "").encode(), self.token.encode())

    def _signature(self, reviewer: str) -> str:
        text = f"{self.token or ''}\n{reviewer}".encode()
        return hmac.new(self.key, text, hashlib.sha256).hexdigest()


def key_beside(store: Path) -> bytes:
    """Return the key that signs cookies, kept in a private file beside the store: after a restart pages go on."""
    place = store.with_name(f"{store.name}.key")
    for _ in range(50):
        try:
            key = place.read_bytes()
        except FileNotFoundError:
            break
        if len(key) == KEY_BYTES:
            return key
        time.sleep(0.02)  # another server on the same store may be writing it
    else:
        place.unlink(missing_ok=True)  # damaged
    key = secrets.token_bytes(KEY_BYTES)
    try:
        with os.fdopen(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(key)
    except FileExistsError:  # another server was quicker
        return key_beside(store)
    return key


def token_of(key: bytes) -> str:
    """Return the token that belongs to a key: the link to the page stays the same after a restart."""
    return hmac.new(key, b"token", hashlib.sha256).hexdigest()[:32]


class Guard:
    """The outermost layer of the server: refuses what may not enter, and adds the headers that protect the page."""

    def __init__(self, app: Any, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        reviewer, cookie, refusal = self._enter(scope, headers)
        guarded = _with_headers(send, cookie)
        if refusal is not None:
            await _say(guarded, scope["path"], *refusal)
            return
        scope["reviewer"] = reviewer
        await self._answer(scope, _bounded(receive), guarded)

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        """Let the application answer; a mistake of ours is one line in the terminal and a sentence for the page."""
        begun = False

        async def noted(message: Any) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, noted)
        except Exception as error:  # of any kind: the server goes on for the others
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(place.filename).name}:{place.lineno}"
            said = f"{type(error).__name__}: {short(str(error))}"
            line = f"a mistake of dpl review in {scope['method']} {scope['path']}: {said} ({where})"
            console.print(line, markup=False, soft_wrap=True)
            if not begun:
                await _say(send, scope["path"], 500, MISTAKE)

    def _enter(self, scope: Any, headers: dict[str, str]) -> tuple[str | None, str | None, tuple[int, str] | None]:
        """Return the reviewer, a cookie to set, and the status and reason of a refusal."""
        access, path = self._access, scope["path"]
        host = headers.get("host", "")
        name = host.rpartition("]")[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
        if not access.knows(name.lower()):
            reason = "this server does not go by that name. Use the address that the terminal shows."
            return None, None, (421, reason)
        origin = headers.get("origin")
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            return None, None, (403, "the request comes from another site.")
        if (
            int(headers.get("content-length", "0") if headers.get("content-length", "0").isdigit() else "0")
            > MOST_BYTES
        ):
            return None, None, (413, f"more than {MOST_BYTES} bytes were sent.")
        reviewer = access.reviewer(_cookie(headers.get("cookie"), access.cookie))
        if path == "/":
            return self._front(scope, reviewer)
        if reviewer is None and not path.startswith(_WITHOUT_COOKIE[1]):
            reason = "this page was opened before, or not by its link. Open the link that the terminal shows."
            return None, None, (401, reason)
        return reviewer, None, None

    def _front(self, scope: Any, reviewer: str | None) -> tuple[str | None, str | None, tuple[int, str] | None]:
        given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [None])[0]
        if (reviewer is None or given is not None) and not self._access.opens(given):
            reason = (
                "the token is missing or wrong. Open the link that the terminal shows, with everything after 'token='."
            )
            return None, None, (403, reason)
        if reviewer is not None:
            return reviewer, None, None
        reviewer = secrets.token_hex(8)
        name, value = self._access.cookie, self._access.signed(reviewer)
        return reviewer, f"{name}={value}; Path=/; Max-Age=31536000; HttpOnly; SameSite=Strict", None


def _cookie(header: str | None, name: str) -> str | None:
    try:
        found = SimpleCookie(header or "").get(name)
    except CookieError:
        return None
    return None if found is None else found.value


def _bounded(receive: Any) -> Any:
    """Return `receive` that stops after the most bytes that may come, whatever the request said of its length."""
    seen = 0

    async def bounded() -> Any:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > MOST_BYTES:
            raise HTTPException(413, f"more than {MOST_BYTES} bytes were sent.")
        return message

    return bounded


def _with_headers(send: Any, cookie: str | None) -> Any:
    added = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
    if cookie is not None:
        added.append((b"set-cookie", cookie.encode()))

    async def guarded(message: Any) -> None:
        if message["type"] == "http.response.start":
            names = {name for name, _ in message["headers"]}
            store = [] if b"cache-control" in names else [(b"cache-control", b"no-store")]
            message = {**message, "headers": [*message["headers"], *added, *store]}
        await send(message)

    return guarded


async def _say(send: Any, path: str, status: int, reason: str) -> None:
    """Answer with an error: a page that can be read for the front page, JSON for the rest."""
    text = f"{reason[0].upper()}{reason[1:]}"
    if path == "/":
        kind, body = (
            "text/html; charset=utf-8",
            _PAGE.format(title=HTTPStatus(status).phrase, text=escape(text)).encode(),
        )
    else:
        kind, body = "application/json", b'{"error": "%s"}' % text.replace('"', "'").encode()
    headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} · dpl review</title><link rel="stylesheet" href="/static/review.css"></head>
<body class="refused"><main><h1>{title}</h1><p>{text}</p><p><a href="/">Try again</a></p></main></body></html>
"""
