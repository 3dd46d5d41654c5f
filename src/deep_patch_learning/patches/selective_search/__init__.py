"""Selective Search (Uijlings et al., 2013)."""
