"""Runs a topology on Spark.  Nothing outside this folder imports pyspark."""
