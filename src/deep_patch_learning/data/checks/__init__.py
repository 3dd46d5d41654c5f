"""What will go wrong with a data set: one module per kind of finding, all run by `check`."""
