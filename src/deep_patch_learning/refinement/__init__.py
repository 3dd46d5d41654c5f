"""Beyond the paper: two-stream head, refinement classifiers, seeds, targets, box regression, pseudo boxes."""
