"""One module a system: it gets a job as JSON, runs it, and prints what happened, one JSON object a line."""
