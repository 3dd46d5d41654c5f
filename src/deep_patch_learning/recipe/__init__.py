"""Recipe: every setting of a training; its presets, its sizes, and `build`, where it becomes parts."""
