"""Where results go: the files of a batch, and the sinks that get them.

within a batch    staged, part, left
sinks             sink, sinks, foreach, memory, table, views, changes
files             parquet, partitioned, folder, merging
topics of Kafka   kafka, kafkawriter, kafkarecords
"""
