"""EdgeBoxes (Zitnick and Dollar, 2014)."""
