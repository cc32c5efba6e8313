"""How Spark and Java are started: the riskiest part of Weft, kept in one folder, and switched off by one setting.

Spark usually takes seconds to start, and each of its Python processes half a second.  What this folder does about it
depends on the internals of the JVM and of PySpark 4.3:

    what                     where           what it buys                  what could go wrong with it
    file of Spark's classes  classes         half of the time of a start   a damaged file crashes a JVM; 190 MB of disk;
                             prepare                                       a background process at exit
    a start ahead of need    ahead           a second and a half of a      a job that is refused has started a JVM for
                             jvm             command                       nothing
    noted command            command         a JVM and a shell script      Spark's launcher prints its command otherwise
    flags of the JVM         settings        start, 100 MB of memory       another vendor's Java refuses a flag
    script as worker Python  interpreter     half a second per process     a cache folder that forbids execution
    Python daemon of ours    daemon          half a second per worker      PySpark changes its internal functions;
                                             and some time in every task   a loaded module starts a thread before a fork
    session without MLlib    bare            a second of a start           a constructor of Spark changes
    warm-up job              warm            a second of the first batch   it runs beside the user's first job
    settings for Spark       settings        start and time of a batch     an internal class of Spark moves; loopback
                                                                           addresses or sockets do not work here
    settings for the log     log4j2          a quiet terminal              a useful message is hidden

`spark` makes the session out of all this.  `java` finds a Java, `spare` is a process that a daemon is forked from,
`ship` sends Weft to executors, `ending` says how a program ends that is interrupted; `plain` is the switch.

WEFT_PLAIN_START=1 switches all of it off: Spark then starts as `SparkSession.builder.master("local[n]").getOrCreate()`
does, with only the settings of `settings.NEEDED`.  What must hold: nothing else in Weft depends on any of this, answers
are the same with and without it, and this folder imports nothing of Weft except its errors.
"""
