"""Where rows come from: files, tables, samples of both."""
