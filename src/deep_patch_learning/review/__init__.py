"""The page on which people review boxes: the store's writer, the server, and the page itself."""
