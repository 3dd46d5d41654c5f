"""Checks of a data set before training: one module per kind of finding, all run by `check`."""
