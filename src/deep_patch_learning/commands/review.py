"""`dpl review`: boxes of a model or of label files -> a page on which people accept, correct and draw them."""

import os
import socket
import webbrowser
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypedDict, Unpack

from deep_patch_learning.commands.options import check_options
from deep_patch_learning.common.errors import DataError, DplError, RunError
from deep_patch_learning.common.progress import console
from deep_patch_learning.data.dataset import limited
from deep_patch_learning.data.readers.read import read_tags

if TYPE_CHECKING:
    import uvicorn

    from deep_patch_learning.data.dataset import TaggedImages
    from deep_patch_learning.inference.loading import ModelOrRun
    from deep_patch_learning.inference.prediction import Prediction
    from deep_patch_learning.review.store import ReviewStore

STORE = "review.sqlite"  # beside a run


class ReviewOptions(TypedDict, total=False):
    """Where the page is served, and how the images are worked through.

    `host` and `port`: the address, 127.0.0.1 and the first free port from 8765 on if not given. Another host than this machine
    needs a `token`; one is made if none is given. `follow_links`: images may be links that lead out of the data's folder.
    `browser`: open the page in one. `limit`, `workers` and `device` as of `Work`. `others`: runs with the same classes, such as
    other seeds or rounds; boxes that they find elsewhere are shown first.
    """

    host: str
    port: int | None
    token: str | None
    follow_links: bool
    browser: bool
    limit: int | None
    workers: int | None
    device: str
    others: "Sequence[ModelOrRun]"


def review(
    data: str | Path,
    model: "ModelOrRun" = None,
    *,
    store: str | Path | None = None,
    split: str | None = None,
    **options: Unpack[ReviewOptions],
) -> Path:
    """Return the store of the review, after serving its page until it is stopped with Ctrl-C.

    `data` is a tagged set, whose boxes `model` finds (the shipped model if None); or a COCO json or a folder of `dpl label`,
    whose boxes are reviewed; or a store, to go on with. Without `store` it is a new file beside the run or the labels, or the
    one that is there. For `options` see `ReviewOptions`: host, port, token, follow_links, browser, limit, workers, device,
    others.
    """
    check_options(options, ReviewOptions, "review")
    served = opened_review(Path(data), model, None if store is None else Path(store), split, options)
    console.print(f"review at {served.url}", markup=False, soft_wrap=True)
    console.print(f"every action is saved in {served.store.path}; Ctrl-C stops", markup=False, soft_wrap=True)
    if options.get("browser"):
        webbrowser.open(served.url)
    with served.sock:
        try:
            served.server.run(sockets=[served.sock])
        finally:
            served.store.close()
    return served.store.path


class Served(NamedTuple):
    """A review that is ready to be served: its store, the server, the socket that listens, and the link to the page."""

    store: "ReviewStore"
    server: "uvicorn.Server"
    sock: socket.socket
    url: str


def opened_review(
    data: Path, model: "ModelOrRun", store: Path | None, split: str | None, options: ReviewOptions
) -> Served:
    """Return the review, after finding the boxes if the store is a new one."""
    try:
        from deep_patch_learning.review.access import Access, check_token, is_loopback, key_beside, token_of
        from deep_patch_learning.review.server import listen, make_app, server_of
        from deep_patch_learning.review.store import ReviewStore
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "uvicorn", "pydantic", "starlette"):
            raise
        raise DplError("dpl review needs fastapi and uvicorn: pip install 'deep-patch-learning[review]'.") from None
    host, token = options.get("host", "127.0.0.1"), options.get("token")
    check_token(token)
    sock = listen(host, options.get("port"))  # what can fail at once fails before the boxes are found
    try:
        place = _store_of(data, model, store)
        if not place.exists():
            _create(place, data, model, split, options)
        opened = ReviewStore(place)
        if data.suffix != ".sqlite":
            _must_be_about(opened, _about(data, model, split))
        key = key_beside(opened.path)
        if token is None and not is_loopback(host):
            token = token_of(key)
        server = server_of(make_app(opened, Access(host, token, key)))
    except BaseException:
        sock.close()
        raise
    return Served(opened, server, sock, _url(host, sock.getsockname()[1], token))


def _url(host: str, port: int, token: str | None) -> str:
    shown = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(
        host, f"[{host}]" if ":" in host else host
    )
    return f"http://{shown}:{port}/" + ("" if token is None else f"?token={token}")


def _store_of(data: Path, model: "ModelOrRun", store: Path | None) -> Path:
    """Return where the store is, or will be."""
    from deep_patch_learning.review.contents import is_labels

    if store is not None:
        return store
    if data.suffix == ".sqlite":
        return data
    if isinstance(model, str | Path):
        return Path(model) / STORE
    real = Path(os.path.realpath(data))
    if model is None and is_labels(data):
        return real.with_name(f"{real.stem}.{STORE}")
    return Path(f"{real.stem}.{STORE}")


def _about(data: Path, model: "ModelOrRun", split: str | None) -> dict[str, str | None]:
    """Return what a store says about its review."""
    from deep_patch_learning.review.contents import digest_of_labels, is_labels

    about = {"title": data.resolve().stem, "data": str(data.resolve()), "split": split}
    if model is None and is_labels(data):
        return {**about, "kind": "labels", "digest": digest_of_labels(data)}
    return {**about, "kind": "model", "model": str(Path(model).resolve()) if isinstance(model, str | Path) else None}


def _must_be_about(store: "ReviewStore", asked: dict[str, str | None]) -> None:
    """Raise `DataError` where the store that is there holds another review than the one asked for."""
    words = {"kind": "another kind", "data": "other data", "split": "another split", "model": "another model"}
    words["digest"] = "these labels as they were before they changed"
    for key, said in words.items():
        if key in store.about and store.about[key] != asked.get(key):
            before = "" if key == "digest" else f" ({store.about[key] or 'none'}, not {asked.get(key) or 'none'})"
            raise DataError(
                f"{store.path}: holds a review of {said}{before}. Go on with it: dpl review {store.path}. "
                "Or begin another one with --store FILE."
            )


def _create(place: Path, data: Path, model: "ModelOrRun", split: str | None, options: ReviewOptions) -> None:
    from deep_patch_learning.review.contents import of_labels
    from deep_patch_learning.review.store import create_store

    if data.suffix == ".sqlite":
        raise DataError(f"{data}: there is no such store. Give the data set, with --model, and one is made.")
    follow = options.get("follow_links", False)
    about = _about(data, model, split)
    try:
        if about["kind"] == "labels":
            classes, images = of_labels(data, follow)
            count = create_store(place, classes, images, about)
        else:
            count = _of_model(place, data, model, split, options, about)
    except FileExistsError:
        console.print(f"{place}: another dpl review has made it meanwhile. It is gone on with.", markup=False)
        return
    console.print(f"{count} boxes to review", markup=False)


def _of_model(
    place: Path,
    data: Path,
    model: "ModelOrRun",
    split: str | None,
    options: ReviewOptions,
    about: dict[str, str | None],
) -> int:
    """Return the number of boxes that the model found for the tags, after writing them to a new store."""
    from deep_patch_learning.inference.box_trust import TrustingModel
    from deep_patch_learning.inference.loading import as_model
    from deep_patch_learning.inference.stream import predict_prepared
    from deep_patch_learning.patches.prepare import prepare
    from deep_patch_learning.review.contents import of_predictions, real_path
    from deep_patch_learning.review.store import create_store

    loaded = as_model(model, options.get("device", "auto"))
    if not loaded.finds_boxes:
        raise RunError(f"{model}: only classifies and finds no boxes. Train one with --heads both or discovery.")
    trusting = TrustingModel.of(loaded)
    images = limited(read_tags(data, split, classes=loaded.classes), options.get("limit"))
    root, follow = data if data.is_dir() else data.parent, options.get("follow_links", False)
    for path in images.paths:  # refused now, not after hours
        real_path(path, root, follow)
    prepared = prepare(images, loaded.patch_generator, workers=options.get("workers"))
    others = [_of_other(one, prepared.images, loaded.classes, options) for one in options.get("others", ())]
    predictions = predict_prepared(trusting, prepared, description="finding boxes")
    found = of_predictions(predictions, prepared.images, follow, root, others)
    return create_store(place, loaded.classes, found, about)


def _of_other(
    model: "ModelOrRun", images: "TaggedImages", classes: Sequence[str], options: ReviewOptions
) -> "Iterator[Prediction]":
    """Return what another run finds in the images."""
    from deep_patch_learning.inference.loading import as_model
    from deep_patch_learning.inference.stream import predict_prepared
    from deep_patch_learning.patches.prepare import prepare

    loaded = as_model(model, options.get("device", "auto"))
    if not loaded.finds_boxes or tuple(loaded.classes) != tuple(classes):
        what = "classes are others" if loaded.finds_boxes else "network only classifies"
        raise RunError(
            f"{model}: its {what}, so that its boxes say nothing about those to review. Leave it out of others."
        )
    prepared = prepare(images, loaded.patch_generator, workers=options.get("workers"))
    return predict_prepared(loaded, prepared, description=f"boxes of {model}")
