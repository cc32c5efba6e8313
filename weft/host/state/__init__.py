"""What survives a batch: segments, stores, manifests, the checkpoint folder.

rows             stores, segment, compaction
commits          manifest, checkpoint, difference, moment
where they lie   place, depot, mirror, durable, room
"""
