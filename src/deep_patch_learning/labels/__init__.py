"""Predictions -> label files to train a detector on: `select` chooses the boxes, one module per format, `write` the folder."""
