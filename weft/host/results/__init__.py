"""Where results go: files of a batch, and the sinks that get them."""
