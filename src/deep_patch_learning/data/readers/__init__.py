"""One module per format of tags; `read` recognises the format."""
