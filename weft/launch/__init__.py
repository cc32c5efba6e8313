"""How Spark and Java are started."""
