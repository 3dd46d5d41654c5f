"""For research: peers side by side (`dpl compare`) and the paper's tables (`dpl reproduce`)."""
