"""What a run tells about itself: progress of each batch, a live line, a final report."""
