"""Topics of Kafka as sources, read at our own pace.

    cluster      how to reach the brokers; which partitions a topic has, and where they begin and end
    positions    what a batch reads of each partition, and how that is cut into parts
    fetching     reads a part: records of one partition between two offsets
    values       bytes of records become columns: JSON, CSV, text
    avro         the same for Avro, whose schemas may be in a `registry`
    sifting      finds the records that cannot be read, and what becomes of them
    records      records of a part become rows: columns of values and keys, and what Kafka says of each record
    declared     the columns that the user declares
    reader       all of it as the `Reader` of a stream
    source       all of it as the `Source` of a stream
    sampled      a bounded sample of a topic

The package `confluent_kafka` is imported when it is first needed: `import weft` works without it.
"""
