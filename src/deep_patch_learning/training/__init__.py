"""Training: recipe (what), loop (how), checkpoint and run folder (what is kept)."""
