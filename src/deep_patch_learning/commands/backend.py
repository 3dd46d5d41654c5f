"""`dpl backend label-studio`: a server that labels tasks of Label Studio before people see them."""

import os
from pathlib import Path

from deep_patch_learning.common.errors import DplError, SettingError
from deep_patch_learning.common.progress import out as stdout
from deep_patch_learning.inference.loading import ModelOrRun, as_model
from deep_patch_learning.labels.studio_server import LOOPBACK, Backend, backend_app

PASSWORD = "DPL_BACKEND_PASSWORD"


def backend(
    model: ModelOrRun = None,
    *,
    images: str | Path | None = None,
    host: str = "127.0.0.1",
    port: int = 9090,
    device: str = "auto",
) -> None:
    """Return when the server of a model for Label Studio was stopped: a run folder, a model, or None for the shipped one.

    `images` is Label Studio's document root; files outside it are never read. Beyond this machine (`host` other than 127.0.0.1)
    the environment variable DPL_BACKEND_PASSWORD must hold a password, for the user `dpl`.
    """
    folder = None if images is None else Path(images)
    if folder is not None and not folder.is_dir():
        raise SettingError(f"{folder}: there is no such folder. Give Label Studio's document root with --images.")
    password = os.environ.get(PASSWORD) or None
    if host not in LOOPBACK and password is None:
        raise SettingError(
            f"--host {host}: the backend would answer every machine that reaches it. Set {PASSWORD}, or leave --host out."
        )
    name = Path(model).resolve().name if isinstance(model, str | Path) else "deep-patch-learning"
    app = backend_app(Backend(as_model(model, device), folder, name), password)
    import uvicorn

    stdout.print(f"Label Studio: Settings > Model > Connect Model > http://{host}:{port}", soft_wrap=True, markup=False)
    server = uvicorn.Server(uvicorn.Config(app, host=host, port=port, log_level="warning"))
    try:
        server.run()
    except SystemExit:  # uvicorn ends the process when the port is taken
        raise DplError(
            f"{host}:{port}: cannot be listened on. Another program may use it: give another --port."
        ) from None
