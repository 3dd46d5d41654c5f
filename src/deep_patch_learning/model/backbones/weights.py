"""Pretrained weights: from torchvision by name or from a local file, and which layers they fill."""

import dataclasses
import zipfile
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from deep_patch_learning.common.errors import ModelError, did_you_mean
from deep_patch_learning.model.backbone import Trunk

_SUFFIXES = (".safetensors", ".pth", ".pt", ".caffemodel")
SMALL = 1 << 20  # bytes: a zip that holds no more is let through, however small it is
_WANTED_FILE = "a .pth, .safetensors or .caffemodel file"


@dataclass(frozen=True)
class FilledLayers:
    """Which layers pretrained weights filled, which are new, and which of the file's found no place."""

    source: str
    filled: tuple[str, ...]
    new: tuple[str, ...]
    unused: tuple[str, ...]

    def __str__(self) -> str:
        return f"weights: {self.source}, {_counted(len(self.filled), 'layer')}; new: {self._new()}"

    def _new(self) -> str:
        """Return the new layers in a few words: the heads counted, others by the part they belong to."""
        parts = {name.partition(".")[0] for name in self.new}
        heads = len(parts - {"backbone", "patch_features"})
        named = [
            words
            for part, words in (("backbone", "backbone layers"), ("patch_features", "patch layers"))
            if part in parts
        ]
        return ", ".join([*named, *([_counted(heads, "head")] if heads else [])]) or "none"

    def details(self) -> dict[str, object]:
        """Return every layer by name: what was filled, what is new, and what of the source was not used."""
        return dataclasses.asdict(self)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def _shorten(names: tuple[str, ...], shown: int = 6) -> str:
    if len(names) <= shown:
        return ", ".join(names) or "none"
    return ", ".join((*names[: shown // 2], "...", *names[-shown // 2 :]))


def read_weights(source: str, trunk: Trunk) -> dict[str, Tensor]:
    """Return the tensors of `source`: `imagenet`, a torchvision weights name, a weight file, `shipped` or `shipped-model`.

    A weight file is a state_dict (`.pth`, `.pt`, `.safetensors`) or Caffe's `.caffemodel`. Of the weights of a run of ours only
    the layers below the heads are taken: its heads know other classes.
    """
    if source in trunk.shipped_weights:
        return _read_file(Path(__file__).parent / trunk.shipped_weights[source])
    if source in ("shipped", "shipped-model"):
        known = [*trunk.shipped_weights, *(["imagenet"] if trunk.torchvision_weights else [])]
        others = "".join(f"'{name}' or " for name in known)
        raise ModelError(f"no weights named '{source}' come with this backbone. Use {others}a local file.")
    path = Path(source)
    if path.suffix in _SUFFIXES:
        return _read_file(path)
    name = trunk.torchvision_weights if source.lower() == "imagenet" else source
    if name is None:
        raise ModelError(f"this backbone has no torchvision weights. Give the path of {_WANTED_FILE}.")
    from torchvision.models import get_weight

    try:
        weights = get_weight(name)
    except (ValueError, AttributeError, KeyError):
        known = ["imagenet", *([trunk.torchvision_weights] if trunk.torchvision_weights else [])]
        raise ModelError(
            f"'{source}' is neither a weight file nor a torchvision weights name.{did_you_mean(source, known)}"
        ) from None
    try:
        return dict(weights.get_state_dict(progress=False, check_hash=True))
    except OSError as error:
        raise ModelError(
            f"{name} could not be fetched ({error}). Without a network, give a file that you have with --weights FILE, or use "
            "--recipe fast, whose weights are in the package."
        ) from None


def check_source(source: str) -> None:
    """Raise `ModelError` if `source` is a weight file that is not there; nothing is read."""
    path = Path(source)
    if path.suffix in _SUFFIXES and not path.is_file():
        raise ModelError(f"{path}: there is no such weight file. Give the path of {_WANTED_FILE}.")


def _read_file(path: Path) -> dict[str, Tensor]:
    check_source(str(path))
    if path.suffix == ".caffemodel":
        from deep_patch_learning.model.backbones.caffe import read_caffemodel

        return read_caffemodel(path)
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return _below_heads(load_file(path))
        _must_not_unfold(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except ModelError:
        raise
    except Exception as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelError(
            f"{path}: not a readable weight file ({first}). Save a plain state_dict and try again."
        ) from error
    state = state.get("state_dict", state) if isinstance(state, dict) else state
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise ModelError(f"{path}: holds {type(state).__name__}, wanted a state_dict of tensors.")
    if not all(isinstance(name, str) for name in state):
        raise ModelError(f"{path}: its tensors have no names. Save a plain state_dict and try again.")
    return state


def _must_not_unfold(path: Path) -> None:
    """Raise `ModelError` for a zip that holds much more than its bytes, as torch never writes: it would fill the memory."""
    if not zipfile.is_zipfile(path):
        return
    with zipfile.ZipFile(path) as archive:
        held = sum(entry.file_size for entry in archive.infolist())
    if held > 2 * path.stat().st_size + SMALL:
        raise ModelError(
            f"{path}: {path.stat().st_size:,} bytes that unfold to {held:,}, which torch.save does not write. Save it again."
        )


def _below_heads(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return what a file holds, or of a run's network the layers below its heads."""
    if not all(name.startswith("network.") for name in tensors):
        return tensors
    own = {name.removeprefix("network."): tensor for name, tensor in tensors.items()}
    return {name: tensor for name, tensor in own.items() if name.startswith(("backbone.", "patch_features."))}


def fill(network: nn.Module, trunk: Trunk, tensors: dict[str, Tensor], source: str) -> FilledLayers:
    """Copy pretrained tensors into `network` and return what was filled, what is new and what was not used."""
    own = network.state_dict()
    filled, unused = {}, []
    for name, tensor in tensors.items():
        target = _own_name(name, trunk, own)
        if target is None or target not in own:
            unused.append(name)
            continue
        if own[target].shape != tensor.shape:
            raise ModelError(
                f"{source}: {name} is {tuple(tensor.shape)}, but this network's {target} is {tuple(own[target].shape)}. "
                "The weights belong to another network."
            )
        filled[target] = tensor
    if not any(name.startswith("backbone.") for name in filled):
        hint = " Caffe's weights go into caffenet or vgg16-caffe." if source.endswith(".caffemodel") else ""
        raise ModelError(
            f"{source}: none of its {len(tensors)} tensors ({_shorten(tuple(tensors))}) fits the backbone. "
            f"Check that --backbone names the network these weights were trained for.{hint}"
        )
    with torch.no_grad():
        for target, tensor in filled.items():
            own[target].copy_(tensor)
    bookkeeping = {name for name in own if name.endswith("num_batches_tracked")}
    return FilledLayers(source, _layers(filled), _layers(own.keys() - filled.keys() - bookkeeping), _layers(unused))


def _own_name(name: str, trunk: Trunk, own: dict[str, Tensor]) -> str | None:
    if name in own:
        return name
    for theirs, ours in trunk.layer_names.items():
        if name.startswith(theirs):
            return ours + name.removeprefix(theirs)
    return None


def _layers(names: object) -> tuple[str, ...]:
    """Return the layers of tensor names, each once, in order of their names."""
    return tuple(sorted({str(name).rsplit(".", 1)[0] for name in names}))  # type: ignore[attr-defined]
