"""Predictions -> label files that a detector trains on: `select` says which boxes, one module per format, `write` all of it."""
