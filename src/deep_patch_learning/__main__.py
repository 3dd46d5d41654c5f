"""`python -m deep_patch_learning` is `dpl`."""

from deep_patch_learning.cli.app import main

main()
