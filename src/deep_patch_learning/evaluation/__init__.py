"""Predictions -> figures: how well the tags are predicted (classification) and the objects found (discovery)."""
