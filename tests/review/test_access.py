"""Who may enter, tried as an attacker would: each request is sent to a real server and must not get what it asks for."""

import contextlib
import json
import os
import socket
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from deep_patch_learning.commands.review import opened_review
from deep_patch_learning.common.errors import DataError, SettingError
from deep_patch_learning.review import work
from deep_patch_learning.review.access import MOST_BYTES, Access, key_beside
from deep_patch_learning.review.contents import of_labels

TAB = "tab-00000001"
JUDGE = {"id": "action-00001", "kind": "judge", "seen": {"1": 0}, "boxes": {"1": "right"}}
IMAGE = "/images/1/320"


@pytest.fixture(scope="module")
def client(shared):
    client = shared.client()
    yield client
    client.close()


@pytest.fixture
def own(serve: Callable, labels: Path):
    """A client of a server of this test alone."""
    client = serve(labels).client()
    yield client
    client.close()


def actions(store: Path) -> int:
    with closing(sqlite3.connect(store)) as file:
        return file.execute("SELECT count(*) FROM actions").fetchone()[0]


def store_of(labels: Path) -> Path:
    return labels.with_name("photos.review.sqlite")


def test_the_page_as_it_should_be_used(own: httpx.Client, labels: Path) -> None:
    assert own.get("/api/state").json()["boxes"] == 40
    assert own.get(IMAGE).headers["content-type"] == "image/jpeg"
    answer = own.post("/api/actions", json=JUDGE, headers={"origin": str(own.base_url).rstrip("/")})
    assert answer.status_code == 200
    assert actions(store_of(labels)) == 1


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1", "http://localhost:1"])
def test_a_foreign_origin_is_refused(client: httpx.Client, shared, origin: str) -> None:
    for method, path in [("POST", "/api/actions"), ("GET", "/api/state"), ("GET", IMAGE), ("POST", "/api/undo")]:
        answer = client.request(method, path, json=JUDGE, headers={"origin": origin})
        assert answer.status_code == 403
        assert "another site" in answer.json()["error"]
    assert actions(shared.store) == 0


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8765", "127.0.0.1.evil.example", "169.254.1.1", ""])
def test_a_foreign_host_is_refused(client: httpx.Client, shared, host: str) -> None:
    """DNS rebinding: a name of somebody else that leads to this machine, with the origin of that name."""
    for path in ("/", "/api/state", IMAGE, "/static/review.js"):
        answer = client.get(path, headers={"host": host, "origin": f"http://{host}"})
        assert answer.status_code == 421
    assert client.post("/api/actions", json=JUDGE, headers={"host": host}).status_code == 421
    assert actions(shared.store) == 0
    assert client.get("/api/state", headers={"host": f"localhost:{shared.port}"}).status_code == 200  # through a tunnel
    assert client.get("/api/state", headers={"host": "localhost:9000"}).status_code == 200


def test_without_the_cookie_nothing_of_the_data_is_given(shared, client: httpx.Client) -> None:
    (name,) = client.cookies
    for cookie in (None, f"{name}=abc", f"{name}=abc.def", f"{name}=.", f"{name}=\x01;;=", "other=1"):
        headers = {} if cookie is None else {"cookie": cookie}
        for path in ("/api/state", "/api/images/1?tab=" + TAB, IMAGE, "/crops/1"):
            assert httpx.get(shared.address + path, headers=headers).status_code == 401
        assert httpx.post(shared.address + "/api/actions", json=JUDGE, headers=headers).status_code == 401
    assert actions(shared.store) == 0


def test_the_cookie_is_same_site_and_no_script_reads_it(shared) -> None:
    given = httpx.get(shared.address + "/").headers["set-cookie"]
    assert "; HttpOnly" in given
    assert "; SameSite=Strict" in given


def test_the_policy_allows_no_script_but_the_pages_own(client: httpx.Client) -> None:
    for path in ("/", "/api/state", IMAGE, "/nothing", "/static/review.js"):
        headers = client.get(path).headers
        policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == policy["img-src"] == "'self'"
        assert policy["frame-ancestors"] == "'none'"
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers
    page = client.get("/").text
    assert "<script>" not in page
    assert " style=" not in page
    assert " on" not in "".join(part.split("<")[0] for part in page.split(">") if part.startswith("<"))


PATHS = [
    *(
        "/images/../../../etc/passwd",
        "/images/..%2f..%2f..%2fetc%2fpasswd/320",
        "/images/%2e%2e/320",
        "/images/1/../../2",
    ),
    *("/crops/..%2f..%2fetc%2fpasswd", "/crops/1%00.jpg", "/images/1;ls/320", "/images/0x1/320", "/images/1.5/320"),
    *("/static/../server.py", "/static/..%2fserver.py", "/static/%2e%2e/server.py", "/static//etc/passwd", "/static/"),
    *("/static/vendor", "/static/vendor/", "/static", "/images/", "/images", "/images/1", "/crops/", "/crops", "/docs"),
    *(
        "/openapi.json",
        "/images/-1/320",
        "/images/99999999999999999999999999/320",
        "/images/1/4096",
        "/api/images/..?tab=x",
    ),
]


@pytest.mark.parametrize("path", PATHS)
def test_a_path_in_place_of_an_id_finds_nothing(shared, client: httpx.Client, path: str) -> None:
    """Sent as it stands: a client library would tidy it."""
    cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    with socket.create_connection(("127.0.0.1", shared.port), timeout=10) as raw:
        raw.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    assert answer.split()[1] in (b"404", b"405", b"422", b"307")
    assert b"root:" not in answer
    assert b"import" not in answer
    assert b'.jpg"' not in answer


def test_a_body_that_is_too_large_is_refused(shared, client: httpx.Client) -> None:
    large = b'{"id": "' + b"a" * MOST_BYTES + b'"}'
    assert client.post("/api/actions", content=large).status_code == 413

    def parts():  # without a length
        for _ in range(20):
            yield b" " * (MOST_BYTES // 10)

    assert client.post("/api/actions", content=parts()).status_code == 413
    assert client.post("/api/actions", content=b" " * (MOST_BYTES - 10)).status_code == 422
    assert actions(shared.store) == 0
    assert client.get("/api/state").status_code == 200


WRONG = [
    b"", b"null", b"[]", b"{", b'{"kind": "judge"}', b"\xff\xfe", b"[" * 5000,
    json.dumps(JUDGE | {"kind": "drop"}).encode(), json.dumps(JUDGE | {"extra": 1}).encode(),
    json.dumps(JUDGE | {"id": "x'; DROP TABLE boxes; --"}).encode(), json.dumps(JUDGE | {"boxes": {"1": "perfect"}}).encode(),
    json.dumps(JUDGE | {"boxes": {str(2**70): "right"}}).encode(), json.dumps(JUDGE | {"boxes": {}}).encode(),
    b'{"id": "action-00001", "kind": "draw", "seen": {"1": 0}, "image": 1, "index": 0, "corners": [0, 0, NaN, 9]}',
    b'{"id": "action-00001", "kind": "draw", "seen": {"1": 0}, "image": 1, "index": 0, "corners": [0, 0, 1e999, 9]}',
]  # fmt: skip


@pytest.mark.parametrize("body", WRONG, ids=range(len(WRONG)))
def test_a_body_that_is_wrong_is_one_sentence(client: httpx.Client, shared, body: bytes) -> None:
    answer = client.post("/api/actions", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    assert "\n" not in answer.json()["error"]
    assert actions(shared.store) == 0


EVIL = "<script>alert(1)</script>"


def test_script_in_names_stays_text(serve: Callable, labels: Path) -> None:
    content = json.loads(labels.read_text())
    content["categories"][0]["name"] = EVIL
    (labels.parent / "images" / "<img src=x onerror=alert(1)>.jpg").write_bytes(
        (labels.parent / "images/000.jpg").read_bytes()
    )
    content["images"][0]["file_name"] = "images/<img src=x onerror=alert(1)>.jpg"
    labels.write_text(json.dumps(content))
    with contextlib.closing(serve(labels).client()) as client:
        answer = client.get("/api/state")
        assert answer.json()["classes"][0]["name"] == EVIL
        assert answer.headers["content-type"] == "application/json"  # no browser makes a page of it
        named = client.get(f"/api/images/1?tab={TAB}")
        assert named.json()["name"] == content["images"][0]["file_name"]
        assert named.headers["content-type"] == "application/json"
        assert EVIL not in client.get("/").text
        refused = client.get("/?token=" + EVIL, headers={"host": EVIL})
        assert EVIL not in refused.text


@pytest.fixture
def guarded(serve: Callable, labels: Path):
    return serve(labels, host="0.0.0.0")


def test_another_address_demands_the_token(guarded) -> None:
    token = guarded.link.partition("token=")[2]
    assert len(token) == 32
    for query in ("", "?token=", "?token=wrong", f"?token={token[:-1]}", f"?token={token}x", f"?Token={token}"):
        answer = httpx.get(f"{guarded.address}/{query}")
        assert answer.status_code == 403
        assert answer.headers["content-type"].startswith("text/html")
        assert "Open the link that the terminal shows" in answer.text
        assert "set-cookie" not in answer.headers
        assert httpx.get(f"{guarded.address}/api/state{query}").status_code == 401
        assert httpx.get(f"{guarded.address}{IMAGE}{query}").status_code == 401
    with httpx.Client(base_url=guarded.address) as client:
        assert client.get(f"/?token={token}").status_code == 200
        assert client.get("/api/state").status_code == 200
        assert client.get("/").status_code == 200  # the cookie is enough from now on
        assert client.get("/?token=wrong").status_code == 403
        assert client.get("/api/state", headers={"host": "evil.example"}).status_code == 421


def test_the_link_outlives_a_restart_and_a_cookie_of_another_token_does_not(
    guarded, serve: Callable, labels: Path
) -> None:
    before = guarded.link.partition("token=")[2]
    client = guarded.client()
    guarded.stop()
    again = serve(labels, host="0.0.0.0")
    assert again.link.partition("token=")[2] == before
    assert httpx.get(again.address + "/api/state", cookies=client.cookies).status_code == 200
    other = serve(labels, host="0.0.0.0", token="mine")
    assert httpx.get(other.address + "/api/state", cookies=client.cookies).status_code == 401
    client.close()


def test_reviews_on_one_machine_do_not_lock_each_other_out(serve: Callable, labels: Path, others: Path) -> None:
    """A browser sends cookies to every port of a host."""
    first, second = serve(labels), serve(others)
    served = [first, second, serve(labels, token="mine")]  # the last on the store of the first
    with httpx.Client() as browser:
        for one in served:
            browser.get(one.link).raise_for_status()
        names = [browser.get(f"{one.address}/api/state").raise_for_status().json()["you"] for one in served]
        for one in served:
            browser.get(one.link).raise_for_status()
        assert [browser.get(f"{one.address}/api/state").json()["you"] for one in served] == names


def test_an_image_is_kept_for_its_review_alone(own: httpx.Client) -> None:
    review = own.get("/api/state").json()["id"]
    at = own.post("/api/screen", json={"tab": TAB, "mode": "sample", "size": 60}).json()["boxes"]
    at = next(box["at"] for box in at if box["id"] == 1)
    for path in (IMAGE, f"/crops/1?at={at}"):
        assert own.get(path).headers["cache-control"] == "no-cache"
        assert "immutable" in own.get(with_review(path, review)).headers["cache-control"]
        other = own.get(with_review(path, "0" * 32))
        assert (other.status_code, other.headers["cache-control"]) == (412, "no-store")
        assert "another review is served here" in other.json()["error"]


def with_review(path: str, review: str) -> str:
    return f"{path}{'&' if '?' in path else '?'}of={review}"


def test_a_crop_is_kept_only_under_the_address_of_its_corners(own: httpx.Client) -> None:
    review = own.get("/api/state").json()["id"]
    boxes = own.post("/api/screen", json={"tab": TAB, "mode": "sample", "size": 60}).json()["boxes"]
    box = next(box for box in boxes if box["id"] == 1)
    address = {"of": review, "at": box["at"]}
    assert "immutable" in own.get("/crops/1", params=address).headers["cache-control"]
    assert own.get("/crops/1", params={"of": review}).headers["cache-control"] == "no-cache"
    moved = {"id": "action-00009", "kind": "change", "seen": {str(box["image"]): box["version"]}, "box": 1}
    assert own.post("/api/actions", json=moved | {"corners": [1, 2, 30, 40]}).status_code == 200
    assert own.get("/crops/1", params=address).headers["cache-control"] == "no-cache"


def test_a_mistake_of_the_server_is_one_line(own: httpx.Client, monkeypatch, capfd) -> None:
    def fail(*given: Any) -> None:
        raise KeyError("nothing\nthere")

    monkeypatch.setattr(work, "next_image", fail)
    answer = own.post("/api/next", json={"tab": TAB, "mode": "sample"})
    assert answer.status_code == 500
    assert answer.json() == {"error": "the server made a mistake. The terminal says more."}
    assert own.get("/api/state").status_code == 200
    said = capfd.readouterr().err
    assert "Traceback" not in said
    (line,) = [line for line in said.splitlines() if "mistake" in line]
    assert "POST /api/next: KeyError" in line
    assert "test_access.py" in line


@pytest.mark.parametrize("token", ["", " "])
@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1"])
def test_an_empty_token_is_an_error_and_opens_nothing(labels: Path, host: str, token: str) -> None:
    with pytest.raises(SettingError, match="--token: is empty"):
        opened_review(labels, None, None, None, {"port": 0, "host": host, "token": token})
    assert not store_of(labels).exists()
    with pytest.raises(SettingError, match="--token: is empty"):
        Access(host, token)
    assert not Access(host, "word").opens(token)


def test_the_system_is_asked_for_its_names_once(monkeypatch) -> None:
    """The name server may take seconds, for any name that a stranger sends."""
    access = Access("0.0.0.0", "word")

    def asked() -> str:
        raise AssertionError("asked again")

    monkeypatch.setattr(socket, "getfqdn", asked)
    monkeypatch.setattr(socket, "gethostname", asked)
    assert not access.knows("evil.example")
    assert all(access.knows(name) for name in access.names)


def test_only_loopback_goes_without_a_token() -> None:
    for host in ("127.0.0.1", "localhost", "::1", "127.0.0.5"):
        assert Access(host, None).opens(None)
    for host in ("0.0.0.0", "::", "192.168.1.7", "example.org"):
        with pytest.raises(SettingError, match="a token is needed"):
            Access(host, None)


def test_the_key_is_its_owners_alone(shared) -> None:
    key = shared.store.with_name("photos.review.sqlite.key")
    assert key.stat().st_mode & 0o777 == 0o600


def test_a_link_out_of_the_folder_is_refused(labels: Path, tmp_path: Path) -> None:
    secret = tmp_path / "elsewhere" / "secret.jpg"
    secret.parent.mkdir()
    image = labels.parent / "images" / "000.jpg"
    image.rename(secret)
    image.symlink_to(secret)
    with pytest.raises(DataError, match=r"000\.jpg: is a link that leads out of .* add --follow-links"):
        of_labels(labels)
    _, found = of_labels(labels, follow_links=True)
    assert found[0].path == secret.resolve()
    image.unlink()
    image.symlink_to(labels.parent / "images" / "001.jpg")  # inside it is an image like others
    _, found = of_labels(labels)
    assert found[0].path == (labels.parent / "images" / "001.jpg").resolve()


def test_an_image_that_becomes_a_link_later_is_not_followed(own: httpx.Client, labels: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.jpg"
    image = labels.parent / "images" / "000.jpg"
    os.rename(image, secret)  # noqa: PTH104
    image.symlink_to(secret)
    for path in (IMAGE, "/crops/1"):
        answer = own.get(path)
        assert answer.status_code == 404
        assert "cannot be read any more" in answer.json()["error"]
    folder = labels.parent / "images"
    folder.rename(tmp_path / "moved")
    folder.symlink_to(tmp_path / "moved")
    assert own.get("/images/2/320").status_code == 404


def test_a_file_that_is_no_image_is_not_sent(own: httpx.Client, labels: Path) -> None:
    (labels.parent / "images" / "000.jpg").write_text("root:x:0:0")
    answer = own.get(IMAGE)
    assert answer.status_code == 404
    assert "root" not in answer.text


def test_a_store_is_gone_on_with_only_for_what_it_is_about(labels: Path, others: Path, tmp_path: Path) -> None:
    store = tmp_path / "review.sqlite"

    def begin(data: Path, **how: Any) -> None:
        served = opened_review(data, how.get("model"), store, how.get("split"), {"port": 0})
        served.sock.close()
        served.store.close()

    begin(labels)
    begin(labels)  # goes on
    begin(store)
    with pytest.raises(DataError, match=r"other data.*Go on with it: dpl review"):
        begin(others)
    with pytest.raises(DataError, match="another split"):
        begin(labels, split="val")
    with pytest.raises(DataError, match="another kind"):
        begin(labels, model="runs/photos")
    content = json.loads(labels.read_text())
    content["annotations"][0]["bbox"][0] += 1
    labels.write_text(json.dumps(content))
    with pytest.raises(DataError, match="as they were before they changed"):
        begin(labels)
    begin(store)


def test_a_second_command_goes_on_with_the_store_that_the_first_one_has_made(
    labels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd
) -> None:
    store = tmp_path / "review.sqlite"
    first: list[Any] = []

    def meanwhile(data: Path, follow: bool) -> Any:
        if not first:
            first.append(None)
            first[0] = opened_review(labels, None, store, None, {"port": 0})
        return of_labels(data, follow)

    monkeypatch.setattr("deep_patch_learning.review.contents.of_labels", meanwhile)
    second = opened_review(labels, None, store, None, {"port": 0})
    assert "another dpl review has made it meanwhile" in capfd.readouterr().err
    assert second.store.about["id"] == first[0].store.about["id"]
    for served in (first[0], second):
        served.sock.close()
        served.store.close()


def test_a_key_that_another_server_is_writing_is_waited_for(tmp_path: Path) -> None:
    place = tmp_path / "review.sqlite.key"
    place.touch()
    key = bytes(range(32))
    writer = threading.Timer(0.1, place.write_bytes, (key,))
    writer.start()
    assert key_beside(tmp_path / "review.sqlite") == key
    writer.join()
    place.write_bytes(b"damaged")
    made = key_beside(tmp_path / "review.sqlite")
    assert len(made) == 32
    assert key_beside(tmp_path / "review.sqlite") == made
