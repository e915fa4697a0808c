"""The times in which the machine itself stood still, for the programs beside this one.

A real-time thread on each core sleeps for a millisecond again and again, and notes when it woke too late: nothing of ours
comes before it. It needs root; otherwise no pauses are known.
"""
import multiprocessing, os, time


def look(core, log):
    os.sched_setaffinity(0, {core})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    due = time.perf_counter() + 0.001
    while True:
        time.sleep(max(0, due - time.perf_counter()))
        now = time.perf_counter()
        if now - due > 0.001:
            os.write(log, b"%f %f\n" % (due, now))
        due = now + 0.001


class Pauses:
    """Looks for them from now on. Times are those of `time.perf_counter`."""

    def __init__(self, directory):
        self.log = os.path.join(directory, "pauses")
        open(self.log, "w").close()
        cores = os.sched_getaffinity(0) if os.geteuid() == 0 else []
        self.watchers = [multiprocessing.Process(target=look, args=(core, self.log), daemon=True) for core in cores]
        for watcher in self.watchers:
            watcher.start()

    def between(self, begin, end):
        """The times from `begin` to `end` in which at least one core stood still, in order; they do not overlap."""
        result = []
        for first, last in sorted(tuple(map(float, line.split())) for line in open(self.log)):
            if first > end or last < begin:
                continue
            if result and first <= result[-1][1]:
                result[-1] = (result[-1][0], max(last, result[-1][1]))
            else:
                result.append((first, last))
        return result

    def stop(self):
        for watcher in self.watchers:
            watcher.kill()


def without(still, begin, end):
    """How long it was from `begin` to `end`, less the times in `still`, which do not overlap."""
    return end - begin - sum(max(0, min(end, last) - max(begin, first)) for first, last in still)
