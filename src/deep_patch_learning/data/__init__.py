"""Images and their tags: read by `readers`, held by `dataset`, opened by `images`; the true boxes apart, in `truth`."""
