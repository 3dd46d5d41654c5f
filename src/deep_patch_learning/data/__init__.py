"""Pictures and tags: read by `tags`, held by `dataset`, opened by `images`; the boxes apart, in `truth`."""
