"""Figures and images of a run -> one self-contained HTML page."""
