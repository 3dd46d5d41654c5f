"""Backbones: one file per family, `registry.py` with all of them by name, and their pretrained weights."""
