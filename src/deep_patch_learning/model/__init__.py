"""Patches -> scores: the network of the paper, part by part."""
