"""Runs a topology on Spark.  Nothing outside this folder imports pyspark.

when a batch begins   pace, polling, streaming
what it reads         sources, reader, reading, oldrows
one job of Spark      waves, mapped, exchange, parcels, homing
a run                 run, epochs, ground, delivery
what went wrong       failing, lost, missing
"""
