"""How Spark and Java are started: Weft's riskiest part, kept in one folder and switched off by one setting.

A Spark that is started in the usual way takes seconds, and each of its Python processes half a second.  What is done
here about it leans on how the JVM and PySpark 4.3 work inside:

    what                     where           what it buys                  what could go wrong with it
    file of Spark's classes  classes         half of the time of a start   a JVM dies of a damaged file; 190 MB of disk;
                             prepare                                       a process in the background at exit
    flags of the JVM         spark           start, 100 MB of memory       a Java of another vendor refuses a flag
    script as worker Python  interpreter     half a second a process       a cache folder where nothing may be executed
    Python daemon of ours    daemon          half a second a worker        its inner functions change with PySpark;
                                             and some time in every task   what is loaded starts a thread, then forks
    warm-up job              warm            a second of the first batch   it meets the user's first job
    settings for Spark       spark           start and time of a batch     an inner class of Spark moves; loopback
                                                                           addresses and sockets do not fit the machine
    settings for the log     log4j2          a quiet terminal              a message that somebody needs is not seen

WEFT_PLAIN_START=1 switches all of it off: Spark then starts as `SparkSession.builder.master("local[n]").getOrCreate()`
does, with what `spark.NEEDED` lists.  What must hold: nothing else in Weft depends on any of this, answers are the same
with and without it, and this folder imports nothing of Weft but errors.
"""
