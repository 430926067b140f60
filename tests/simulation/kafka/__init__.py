"""Simulated Kafka clusters for deterministic simulations: virtual time, no sockets, no threads.

How to build a world:

    time = VirtualTime()                              a clock, and the events of the world
    rng = random.Random(seed)                         the only source of randomness
    network = Network(time, rng)
    source = Cluster("source", network, rng, brokers=2, note=history.append)
    target = Cluster("target", network, rng, brokers=2, note=history.append)
    source.create("topic", partitions=3)
    loop = SelectorLoop(time, SimulatedPoller(network))
    open_cluster = SimulatedAccess.opener(
        {"source": (source, AccessFaults()), "target": (target, AccessFaults())}
    )
    engine = CopyEngine(settings, ..., clock=time, open_cluster=open_cluster, loop=loop)

`settings.source.bootstrap` is `(("source", 0),)`: its first host chooses the cluster. Each
`engine.step(timeout)` moves virtual time forward by what it waits; `time.run_until` moves the world
while nothing of ours runs (a worker that is frozen, or down). Faults of single requests are
probabilities in `Cluster.faults`, `Cluster.connections` and `AccessFaults`; everything else that
can befall a cluster is a method of `Cluster`. `heal` ends it all.

For exactly-once, `Coordinator(target)` writes markers, and `SimulatedTransactions` is the
`TransferTransactions` of one run of a task, over the product's client of the coordinator;
`committed_offsets` reads what is stored. `codes` has the retriable errors of each request.

`data_batch` makes source batches of numbered records; `numbers_of` reads the numbers of a batch on
either side.
"""
