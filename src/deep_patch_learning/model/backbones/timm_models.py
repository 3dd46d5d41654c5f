"""Any convolutional network of timm, by its name there."""

from torch import Tensor, nn

from deep_patch_learning.common.errors import ModelError, did_you_mean
from deep_patch_learning.model.backbone import Backbone, Normalisation, Trunk
from deep_patch_learning.model.patch_features import FullyConnected


class _StageOf(nn.Module):
    """One stage of a timm feature extractor."""

    def __init__(self, extractor: nn.Module) -> None:
        super().__init__()
        self.extractor = extractor

    def forward(self, images: Tensor) -> Tensor:
        return self.extractor(images)[0].relu()


def timm_trunk(name: str) -> Trunk:
    """Return the stride-16 stage of a timm model, with new fc6 and fc7."""
    try:
        import timm
    except ImportError:
        raise ModelError(f"backbone 'timm:{name}' needs timm: pip install 'deep-patch-learning[timm]'.") from None
    if not timm.is_model(name):
        raise ModelError(f"timm has no model '{name}'.{did_you_mean(name, timm.list_models())}")
    try:
        probe = timm.create_model(name, features_only=True)
    except RuntimeError as error:
        raise ModelError(f"timm's {name} gives no feature maps ({error}). Choose a convolutional network.") from None
    if any(key.startswith("patch_embed") or "pos_embed" in key for key in probe.state_dict()):
        raise ModelError(f"timm's {name} takes images of one size only. Choose a convolutional network.")
    reductions = probe.feature_info.reduction()
    level = max((i for i, reduction in enumerate(reductions) if reduction <= 16), default=0)
    extractor = timm.create_model(name, features_only=True, out_indices=(level,))
    channels, stride = extractor.feature_info.channels()[0], extractor.feature_info.reduction()[0]
    settings = extractor.pretrained_cfg
    pixels = Normalisation(mean=settings["mean"], std=settings["std"])
    backbone = Backbone(_StageOf(extractor), channels, stride, pixels, frozen_norm=True, guarded=False)
    return Trunk(backbone, 7, FullyConnected(channels * 49, 1024, 1024), {"": "backbone.body.extractor."})
