"""The SPP layer: feature maps + patches -> one fixed-size map per patch (the paper's equation for o_ij^k)."""

from importlib.util import find_spec

import torch
from torch import Tensor, nn

HAS_TRITON, HAS_NUMBA = (find_spec(name) is not None for name in ("triton", "numba"))


class SpatialPyramidPooling(nn.Module):
    """RoI max-pooling: each patch's part of the map is cut into size x size bins and each bin gives its maximum.

    A patch's corners are divided by the stride and rounded; bins take floor and ceil, so neighbours may share a row; a bin
    that holds nothing gives 0. This is `torchvision.ops.roi_pool`, with faster kernels where there are any.
    """

    def __init__(self, size: int, stride: int) -> None:
        super().__init__()
        self.size = size
        self.stride = stride

    def forward(self, maps: Tensor, patches: Tensor, patch_image: Tensor) -> Tensor:
        """Return (P, D, size, size) from maps (I, D, h, w), patches (P, 4) in pixels and their images' indices (P,)."""
        if maps.is_cuda and HAS_TRITON and maps.dtype != torch.float64:
            from deep_patch_learning.model.kernels.pooling_gpu import roi_max_pool

            return roi_max_pool(maps, patches, patch_image, self.size, 1.0 / self.stride)
        # half precision cannot hold pixel coordinates exactly, so pooling is done in single (or double) precision
        precise = maps if maps.dtype == torch.float64 else maps.float()
        rois = torch.cat((patch_image[:, None].to(precise.dtype), patches.to(precise.dtype)), dim=1)  # (P, 5)
        if maps.device.type == "cpu" and HAS_NUMBA and not torch.jit.is_tracing():
            from deep_patch_learning.model.kernels.pooling_cpu import pays
            from deep_patch_learning.model.kernels.pooling_cpu import roi_max_pool as pool_on_cpu

            if pays(precise, len(rois), self.size):  # the same numbers, faster
                return pool_on_cpu(precise, rois, self.size, 1.0 / self.stride).to(maps.dtype)
        from torchvision.ops import roi_pool  # takes a second to import, and is seldom needed

        return roi_pool(precise, rois, (self.size, self.size), 1.0 / self.stride).to(maps.dtype)
