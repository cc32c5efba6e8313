"""What survives a batch: segments, stores, manifests, the checkpoint folder."""
