"""The Label Studio backend, asked over HTTP as its documentation says: https://github.com/HumanSignal/label-studio-ml-backend."""

import base64
import os
import socket
import struct
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
import uvicorn
from PIL import Image

import deep_patch_learning as dpl
from deep_patch_learning.common.errors import SettingError
from deep_patch_learning.inference.calibration import Calibration
from deep_patch_learning.labels.label_studio import config
from deep_patch_learning.labels.studio_server import LARGEST_BODY, MOST_TASKS, Backend, backend_app
from deep_patch_learning.labels.studio_tasks import RequestError, _below, page_of

PAGE = """<View>
  <Image name="photo" value="$picture"/>
  <RectangleLabels name="box" toName="photo"><Label value="Bird"/><Label value="bus"/><Label value="Fish"/>
    <Label value="boat"/><Label value="car"/><Label value="house"/><Label value="plane"/><Label value="tractor"/>
    <Label value="nothing we know"/></RectangleLabels>
  <Choices name="tag" toName="photo" choice="multiple"><Choice value="bus"/><Choice value="fish"/><Choice value="bird"/>
    <Choice value="boat"/><Choice value="car"/><Choice value="house"/><Choice value="plane"/><Choice value="tractor"/></Choices>
</View>"""


def serve(app: object) -> tuple[uvicorn.Server, threading.Thread, str]:
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))  # type: ignore[arg-type]
    thread = threading.Thread(target=server.run, kwargs={"sockets": [taken]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    return server, thread, f"http://127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture(scope="module")
def model(small_run: Path) -> dpl.Model:
    loaded = dpl.load(small_run, "cpu")
    # a training of seconds is sure of nothing: show every class, so that there are boxes to compare
    loaded.calibration = Calibration(
        loaded.classes, *np.array([[1.0] * 8, [0.0] * 8, [0.0] * 8, [9] * 8]), 72, 0.0, 0.0
    )
    return loaded


@pytest.fixture(scope="module")
def client(model: dpl.Model, small_world: Path) -> Iterator[httpx.Client]:
    server, thread, address = serve(backend_app(Backend(model, small_world.parent, "small")))
    with httpx.Client(base_url=address, timeout=60) as opened:
        yield opened
    server.should_exit = True
    thread.join(20)


EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n(x) print\n%%EOF\n"


def huge_png() -> bytes:
    """Return a small file that says it has 169 million pixels."""
    head = struct.pack(">II5B", 13000, 13000, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", head), (b"IDAT", zlib.compress(bytes(100))), (b"IEND", b"")]
    chunks = (
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def task(address: str, number: int = 1) -> dict:
    return {"id": number, "data": {"picture": address}}


def ask(client: httpx.Client, *tasks: dict, page: str = PAGE) -> httpx.Response:
    return client.post("/predict", json={"tasks": tasks, "label_config": page, "project": "1.1700000000", "params": {}})


def test_health_setup_webhook_and_versions(client: httpx.Client) -> None:
    for path in ("/", "/health"):
        assert client.get(path).json()["status"] == "UP"
    asked = {"project": "1.1700000000", "schema": PAGE, "hostname": "http://localhost:8080", "access_token": "t"}
    assert client.post("/setup", json=asked).json() == {"model_version": "small"}
    heard = client.post("/webhook", json={"action": "ANNOTATION_CREATED", "annotation": {}, "project": {}})
    assert heard.status_code == 201
    assert client.get("/versions").json() == {"versions": ["small"]}
    assert client.get("/metrics").json() == {}


def test_predictions_are_those_of_the_model(client: httpx.Client, model: dpl.Model, small_world: Path) -> None:
    files = sorted((small_world.parent / "images").glob("*.jpg"))[:2]
    found = ask(client, *(task(f"/data/local-files/?d=images/{file.name}", n) for n, file in enumerate(files)))
    assert found.status_code == 200
    results = found.json()["results"]
    for file, result in zip(files, results, strict=True):
        wanted = model.predict(file)
        assert result["model_version"] == "small"
        boxes = [one for one in result["result"] if one["type"] == "rectanglelabels"]
        assert [one["value"]["rectanglelabels"][0].lower() for one in boxes] == [box.tag for box in wanted.boxes]
        for one, box in zip(boxes, wanted.boxes, strict=True):
            assert (one["from_name"], one["to_name"], one["image_rotation"]) == ("box", "photo", 0)
            assert (one["original_width"], one["original_height"]) == (wanted.width, wanted.height)
            value = one["value"]
            x, y, across, down = (value[key] / 100 for key in ("x", "y", "width", "height"))
            corners = (x * wanted.width, y * wanted.height, (x + across) * wanted.width, (y + down) * wanted.height)
            assert corners == pytest.approx(box.box, abs=1e-3)
            assert one["score"] == pytest.approx(box.probability)
        choices = [one["value"]["choices"] for one in result["result"] if one["type"] == "choices"]
        assert choices == ([[tag.name for tag in wanted.tags]] if wanted.tags else [])
    assert any(result["result"] for result in results)  # else nothing was compared


def test_an_image_inside_the_task_is_read_too(client: httpx.Client, small_world: Path) -> None:
    file = small_world.parent / "images" / "500000.jpg"
    inside = "data:image/jpeg;base64," + base64.b64encode(file.read_bytes()).decode()
    both = ask(client, task(inside), task("/data/local-files/?d=images/500000.jpg")).json()["results"]
    assert both[0] == both[1]


@pytest.mark.parametrize(
    "address",
    [
        "/data/local-files/?d=../outside.jpg",
        "/data/local-files/?d=images/../../outside.jpg",
        "/data/local-files/?d=%2Fetc%2Fpasswd",
        "/data/local-files/?d=",
        "/data/local-files/?d=images",
        "/data/local-files/?d=link.jpg",
        "/data/local-files/?d=" + "a" * 300,
        "/data/local-files/?d=a%00b",
        "file:///etc/passwd",
        "http://127.0.0.1:1/x.jpg",
        "//127.0.0.1/data/local-files/?d=images/500000.jpg",
        "data:image/png;base64,AAAA",
        "data:image/png,AAAA",
        "data:image/png;base64," + base64.b64encode(EPS).decode(),
        "data:image/png;base64," + base64.b64encode(huge_png()).decode(),
        "//[x",
        "http://[::1",
    ],
)
def test_nothing_outside_the_folder_is_read(client: httpx.Client, small_world: Path, address: str) -> None:
    outside = small_world.parent.parent / "outside.jpg"
    Image.new("RGB", (20, 20)).save(outside)
    link = small_world.parent / "link.jpg"
    if not link.is_symlink():
        link.symlink_to(outside)
    found = ask(client, task(address))
    assert found.status_code == 200  # the other tasks of a request have their answers
    (result,) = found.json()["results"]
    assert result["result"] == []
    assert result["error"]
    assert str(small_world.parent.parent) not in result["error"]


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("", "missing"),
        ("<View", "no XML"),
        ("<!DOCTYPE a [<!ENTITY b 'c'>]><View/>", "entities"),
        ("<View><Text name='t' value='$t'/></View>", "no RectangleLabels or Choices"),
        (
            "<View><Image name='i' value='$i'/><Choices name='c' toName='i'><Choice value='buss'/></Choices></View>",
            "'bus'",
        ),
    ],
)
def test_a_page_that_the_model_cannot_serve_is_refused(page: str, said: str) -> None:
    with pytest.raises(RequestError, match=said):
        page_of(page, ("bus", "fish"))


def test_the_page_that_dpl_label_writes_is_served() -> None:
    from xml.etree import ElementTree

    page = page_of(ElementTree.tostring(config(("bus", "a dog")), encoding="unicode"), ("bus", "a dog"))
    assert page.key == "image"
    assert page.boxes is not None
    assert page.boxes.labels == {"bus": "bus", "a dog": "a dog"}


def test_a_name_that_somebody_else_points_at_this_machine_is_refused(client: httpx.Client) -> None:
    assert client.get("/health", headers={"host": "evil.example:9090"}).status_code == 421
    assert client.post("/predict", json={}, headers={"host": "evil.example"}).status_code == 421
    assert client.get("/health", headers={"host": "localhost:1"}).status_code == 200


def test_requests_that_are_no_requests(client: httpx.Client) -> None:
    assert client.post("/predict", content=b"{", headers={"content-type": "application/json"}).status_code == 400
    assert client.post("/predict", content=b"[]", headers={"content-type": "application/json"}).status_code == 400
    assert client.post("/predict", content=b"{}", headers={"content-type": "text/plain"}).status_code == 400
    many = client.post("/predict", json={"tasks": [{}] * (MOST_TASKS + 1), "label_config": PAGE})
    assert many.status_code == 400
    assert str(MOST_TASKS) in many.json()["error"]
    assert client.get("/docs").status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        '{"tasks": [{"data": {"picture": "\\ud800"}}], "label_config": "%s"}',
        '{"tasks": [], "label_config": "\\ud800"}',
        '{"tasks": [{"data": {"picture": "/data/local-files/?d=\\udc80"}}], "label_config": "%s"}',
        '{"tasks": [{"data": {"picture": "/data/local-files/?d=loop.jpg"}}], "label_config": "%s", "\\udfff": 1}',
    ],
)
def test_half_of_a_character_is_refused(client: httpx.Client, body: str) -> None:
    page = PAGE.replace("\n", " ").replace('"', '\\"')
    for path in ("/predict", "/setup", "/webhook"):
        content = body.replace("%s", page).encode()
        found = client.post(path, content=content, headers={"content-type": "application/json"})
        assert found.status_code == 400
        assert found.json()["error"] == "the request is no JSON that can be read."


def test_a_link_that_leads_to_itself_is_no_image(tmp_path: Path) -> None:
    (tmp_path / "loop.jpg").symlink_to("loop.jpg")
    with pytest.raises(RequestError, match=r"there is no image 'loop\.jpg'"):
        _below(tmp_path, "loop.jpg")


def test_a_request_that_is_too_long_is_refused_before_it_is_read(client: httpx.Client) -> None:
    with socket.create_connection((client.base_url.host, client.base_url.port or 80), timeout=30) as opened:
        head = [
            "POST /predict HTTP/1.1",
            "Host: localhost",
            "Content-Type: application/json",
            f"Content-Length: {LARGEST_BODY + 1}",
        ]
        opened.sendall("\r\n".join([*head, "", ""]).encode())  # and nothing more
        assert opened.recv(100).startswith(b"HTTP/1.1 400")

    def unannounced() -> Iterator[bytes]:
        for _ in range((LARGEST_BODY >> 20) + 2):
            yield b" " * (1 << 20)

    found = client.post("/predict", content=unannounced(), headers={"content-type": "application/json"})
    assert found.status_code == 400
    assert "longer than" in found.json()["error"]


def test_a_password_is_asked_for(model: dpl.Model) -> None:
    server, thread, address = serve(backend_app(Backend(model, None, "small"), "secret"))
    with httpx.Client(base_url=address, timeout=60) as opened:
        assert opened.get("/health").status_code == 200
        asked = {"schema": PAGE}
        assert opened.post("/setup", json=asked).status_code == 401
        assert opened.post("/setup", json=asked, auth=("dpl", "wrong")).status_code == 401
        assert opened.post("/setup", json=asked, auth=("dpl", "secret")).status_code == 200
    server.should_exit = True
    thread.join(20)


def test_no_other_machine_without_a_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DPL_BACKEND_PASSWORD", raising=False)
    with pytest.raises(SettingError, match="DPL_BACKEND_PASSWORD"):
        dpl.backend(host="0.0.0.0")
    with pytest.raises(SettingError, match="there is no such folder"):
        dpl.backend(images="nowhere")


def test_the_command_serves_until_it_is_stopped(small_run: Path, small_world: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["label-studio", "--model", small_run, "--images", small_world.parent, "--port", port, "--device", "cpu"]
    command = [sys.executable, "-m", "deep_patch_learning", "backend", *map(str, words)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ.copy()
    )
    try:
        for _ in range(600):
            try:
                up = httpx.get(f"http://127.0.0.1:{port}/health").json()
                break
            except httpx.ConnectError:
                assert process.poll() is None, process.communicate()
                time.sleep(0.2)
        assert up["status"] == "UP"
        taken = subprocess.run(command, capture_output=True, text=True, check=False)
        assert taken.returncode == 2
        assert "cannot be listened on" in taken.stderr
        assert "Traceback" not in taken.stderr
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_a_real_label_studio_connects_and_shows_predictions(small_world: Path) -> None:
    """Against a Label Studio that runs with USE_DEFAULT_BANNED_SUBNETS=false."""
    if not os.environ.get("LABEL_STUDIO_URL"):
        pytest.skip("needs a running Label Studio: set LABEL_STUDIO_URL, and LABEL_STUDIO_TOKEN to an access token")
    loaded, folder = dpl.load(device="cpu"), small_world.parent
    server, thread, address = serve(backend_app(Backend(loaded, folder, "shipped")))
    token = {"Authorization": f"Token {os.environ['LABEL_STUDIO_TOKEN']}"}
    with httpx.Client(base_url=os.environ["LABEL_STUDIO_URL"], headers=token, timeout=120) as studio:

        def ask_studio(path: str, **content: object) -> dict:
            found = studio.post(path, json=content)
            assert found.status_code in (200, 201), found.text
            return found.json()

        project = ask_studio("/api/projects", title="dpl", label_config=PAGE)["id"]
        connected = ask_studio("/api/ml", project=project, url=address, title="dpl")
        assert (connected["state"], connected["model_version"]) == ("CO", "shipped")
        file = folder / "images" / "500000.jpg"
        inside = "data:image/jpeg;base64," + base64.b64encode(file.read_bytes()).decode()
        studio.post(f"/api/projects/{project}/import", json=[{"data": {"picture": inside}}]).raise_for_status()
        everything = {"selectedItems": {"all": True, "excluded": []}, "project": str(project)}
        ask_studio(f"/api/dm/actions?id=retrieve_tasks_predictions&project={project}", **everything)
        tasks = studio.get(f"/api/tasks?project={project}").json()
        (one,) = tasks["tasks"] if isinstance(tasks, dict) else tasks
        (shown,) = studio.get(f"/api/tasks/{one['id']}").json()["predictions"]
        wanted = loaded.predict(file).boxes
        assert shown["model_version"] == "shipped"
        known = [box.tag for box in wanted if box.tag in ("bird", "bus", "boat", "car")]
        assert len([one for one in shown["result"] if one["type"] == "rectanglelabels"]) == len(known)
        studio.delete(f"/api/projects/{project}")
    server.should_exit = True
    thread.join(20)
