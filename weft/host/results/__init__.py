"""Where results go: the files of a batch, and the sinks that get them."""
