"""The systems we compare with, on the same data, backbones, training loop and measures."""
