"""`dpl reproduce`: the paper's tables, our figures beside the paper's."""

from pathlib import Path
from typing import Any, TypedDict, Unpack

from deep_patch_learning.commands.options import check_options
from deep_patch_learning.research.reproduce import command


class ReproduceOptions(TypedDict, total=False):
    """`recipe`, `backbone`, `weights`, `steps` and `changes` (KEY=VALUE texts) of every training, the `seeds` with commas, the
    folder `out`, `limit`, `device` and `workers`."""

    recipe: str
    backbone: str | None
    weights: str | None
    steps: int | None
    seeds: str
    changes: list[str]
    out: Path | None
    device: str
    limit: int | None
    workers: int | None


def reproduce(
    name: str, data: str | Path | None = None, *, table: str = "all", **options: Unpack[ReproduceOptions]
) -> dict[str, Any]:
    """Return the paper's tables filled with our figures, whether its claims hold, and the files written.

    `name` is voc2007 or voc2012; the data set is fetched to ./data unless `data` is its folder. `table` is main, tasks,
    scales, patches, peers, time, several with commas, or all. The same call again resumes. For `options` see
    `ReproduceOptions`.
    """
    check_options(options, ReproduceOptions, "reproduce")
    place = None if data is None else Path(data)
    return command.reproduce(command.Options(name=name, data=place, table=table, **options))
