"""Jobs in trouble: stories drawn from seeds, played, and compared with DuckDB."""
