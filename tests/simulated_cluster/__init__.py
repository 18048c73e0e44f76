"""A cluster in a box: ten real workers in simulated time, one step after the other by a seed.

Real are the pollers, heartbeats, executors, runs, stores and clients. Simulated are the clocks,
the threads, the connections and the deaths. A seed chooses every step, so a schedule that shows a
defect can be played again exactly.

    scheduler   simulated time, and the actors that take turns in it
    choices     the decisions of a seed, and their end
    hosts       the processes: their clocks, their deaths, and what each keeps for itself
    threads     threads, events, locks and sleep in simulated time
    left        exceptions that one thread leaves with another
    notes       signals to a process, and its end
    database    one database in memory, and sessions that can be lost
    backend     the same for Django
    manners     the two ways of claiming, on the simulated database
    replaced    puts all these into the product's modules
    weather     the faults, and when they strike
    cluster     workers that are started, killed and stopped; clients; a steward
    play        one seed from its beginning to the checker's verdict
    rules       who was late without a reason
    endings     stops, batches, and runs that do not end
    planted     the product with one guard removed, or with a defect of former days
    shrink      the shortest prefix of a schedule that still fails
    pool, run   many seeds, each in a process of its own; what the command line says
"""
