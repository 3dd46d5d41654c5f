"""One module per family of backbones, and their pretrained weights."""
