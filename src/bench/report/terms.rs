//! Terms of a report, with their meaning.

/// Terms that tables, notes and warnings use, each with a definition.
pub const TERMS: &[(&str, &str)] = &[
    (
        "cell",
        "One store, one workload, one setting. The id of a cell contains t4 for 4 threads or clients, and b100 for \
        batches or pipelines of 100 operations.",
    ),
    ("repetition", "One measurement of each cell, in another order each time. Tables show the median."),
    ("block", "One repetition of stores that take turns, each with a fresh load."),
    (
        "equal within 3%",
        "The 90% interval of the ratio of two stores lies within this margin: if they differ at all, it is by less.",
    ),
    (
        "cannot tell",
        "The measurements show neither a difference nor equality. It does not mean equal: read the interval, and choose \
        among these stores by another column, or measure longer (--detect, --budget).",
    ),
    ("in process, over the wire", "The benchmark calls the engine, or is a client of a server."),
    (
        "group commit",
        "One thread commits the writes of all waiting threads, as the server does. Without it, each thread commits its \
        own writes.",
    ),
    ("loss bound", "The acknowledged writes that a kill of the process, or a power cut, may lose at most."),
    (
        "other loss bound",
        "The store was measured, but with another loss bound than the stores of the column, so it is not ranked there.",
    ),
    (
        "over the wire, fsync always and the like in place of a ratio",
        "The store was measured there, but not as the stores of the column were.",
    ),
    (
        "memory",
        "The peak of the resident memory of the process with the engine. It contains the pages of files that the engine has \
        mapped into memory, but no other page cache: engines that map their files show more.",
    ),
    (
        "reopens in, recovers in",
        "Time to open the files again after a close, and after a kill. After a kill it is that of the experiment which kills \
        the store, with the most data there: policy, data and environment can be others than those of the table.",
    ),
    (
        "environment",
        "Runs of the same machine and version of kvbench, with the same memory limit, page cache and CPUs; only these \
        are compared.",
    ),
    (
        "harness overhead",
        "The cost of the benchmark itself, measured with an engine that does nothing. ~ marks results of which it may be \
        more than half.",
    ),
    ("interference", "CPU time that other programs, or other virtual machines, used during a measurement."),
    ("soak", "A measurement of minutes that records each second, to show stalls and deferred work."),
    (
        "steady state",
        "The part of a soak after its start: of all starts in the first half, the one after which the mean of the \
        throughput is known best.",
    ),
    (
        "95% confidence interval",
        "The interval that contains the true ratio with a probability of 95%, computed from the repetitions.",
    ),
];
