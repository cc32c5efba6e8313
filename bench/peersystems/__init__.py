"""One module per system: it gets a job as JSON, runs it, and prints what happened, one JSON object per line."""
