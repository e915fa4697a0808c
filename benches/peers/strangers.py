#!/usr/bin/env python3
"""What strangers can do to a server: its memory, and whether it goes on serving others.

usage: strangers.py 'kvbench --path :memory: --port {port}' [--only clients,slow,...] [--files 400]

Each case starts a server of its own, and does its worst while one more client sends a PING or a GET, one after the
other, as any honest client would:

clients    9,900 connections, each with one request answered, then idle (--maxclients is 10,000 by default)
slow       1,000 clients that ask for a value of 1 MiB, and read nothing
pipeline   a million GETs in one pipeline, and nothing is read before all are sent
unread     a client that sends GETs of 1 MiB without end and reads nothing: it must be stopped, or closed
value      a SET, a GET and a DEL of a value of 512 MiB
key        the same of a key of 512 MiB
request    requests above 1 GiB that do not end: an MSET of two values, one of small words, an inline command
half       1,000 connections that are opened, begin a request, and never go on; and as many that end their half
files      more connections than there are open files for (--files): those in excess are refused, accept goes on

Printed is the server's resident memory before, at the most, and after the case, a few seconds later; the largest
time that the honest client waited (no figure on a machine that does other things); and whether it was served. Ends
with 1 if it was not, or if memory went beyond what the case may take.
"""
import argparse, multiprocessing, os, resource, shlex, shutil, socket, subprocess, sys, tempfile, threading, time

ap = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__)
ap.add_argument("server", help="command line with {port} and {dir}")
ap.add_argument("--only", help="cases, comma-separated")
ap.add_argument("--files", type=int, default=400, help="open files of the server in the case of that name")
a = ap.parse_args()
MIB = 1 << 20
HUGE = 512 * MIB
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Server:
    """A server with its directory, and an honest client that notes how long it waits."""

    def __init__(self, files=None):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.directory = tempfile.mkdtemp(dir=os.environ.get("BENCH_DIR", "/var/tmp"))
        words = shlex.split(a.server.format(port=self.port, dir=self.directory))
        limit = files and (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files)))
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, preexec_fn=limit)
        while True:
            try:
                self.connect().close()
                break
            except OSError:
                if self.process.poll() is not None:
                    raise SystemExit("the server does not start")
                time.sleep(0.05)
        self.most, self.longest, self.served, self.fault = 0, 0.0, 0, None
        self.done = multiprocessing.Event()
        theirs, self.outcome = multiprocessing.Pipe()
        # A process of its own: a thread would wait for those of the strangers, not for the server.
        self.honest = multiprocessing.Process(target=self.serve, args=(theirs,))
        self.watch = threading.Thread(target=self.look)
        self.before = self.memory()
        self.honest.start()
        self.watch.start()

    def connect(self):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=120)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def memory(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))

    def look(self):
        while not self.done.wait(0.01):
            try:
                self.most = max(self.most, self.memory())
            except (OSError, StopIteration):
                self.fault = "the server is gone"
                return

    def serve(self, outcome):
        longest, number, fault = 0.0, 0, None
        try:
            connection = self.connect()
            while not self.done.wait(0.002):
                begin, number = time.perf_counter(), number + 1
                word = b"honest:%d" % number
                connection.sendall(request(b"SET", b"honest", word) + request(b"GET", b"honest"))
                expected = b"+OK\r\n$%d\r\n%s\r\n" % (len(word), word)
                if receive(connection, len(expected)) != expected:
                    raise OSError("another reply than was expected")
                longest = max(longest, time.perf_counter() - begin)
        except OSError as error:
            fault = f"an honest client was not served: {error}"
        outcome.send((longest, number, fault))

    def end(self):
        time.sleep(3)
        try:
            after = self.memory()
        except (OSError, StopIteration):
            after = 0
        self.done.set()
        self.longest, self.served, fault = self.outcome.recv()
        self.fault = self.fault or fault
        self.honest.join()
        self.watch.join()
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)
        return after


def request(*words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def receive(connection, length):
    pieces = []
    while length:
        piece = connection.recv(min(length, MIB))
        if not piece:
            raise OSError("the connection was closed")
        pieces.append(piece)
        length -= len(piece)
    return b"".join(pieces)


def send(connection, data, times=1):
    """Sends as much as is taken; returns whether that was all."""
    try:
        for _ in range(times):
            connection.sendall(data)
        return True
    except OSError:
        return False


def clients(server):
    connections = []
    for _ in range(9_900):
        connection = server.connect()
        connection.sendall(request(b"PING"))
        assert receive(connection, 7) == b"+PONG\r\n"
        connections.append(connection)
    time.sleep(1)
    return connections, f"{len(connections)} clients"


def large(server):
    with server.connect() as connection:
        send(connection, request(b"SET", b"large", b"v" * MIB))
        assert receive(connection, 5) == b"+OK\r\n"


def slow(server):
    large(server)
    connections = [server.connect() for _ in range(1000)]
    for connection in connections:
        connection.sendall(request(b"GET", b"large"))
    time.sleep(5)
    return connections, "1,000 clients with a reply of 1 MiB each"


def pipeline(server):
    connection, count = server.connect(), 1_000_000
    sender = threading.Thread(target=send, args=(connection, request(b"GET", b"absent") * 1000, count // 1000))
    sender.start()
    sender.join(5)
    length = receive(connection, 5 * count)
    sender.join()
    assert length == b"$-1\r\n" * count
    return [connection], f"{count} GETs"


def unread(server):
    large(server)
    connection = server.connect()
    connection.settimeout(20)
    ask, sent = request(b"GET", b"large") * 1000, 0
    try:
        while sent < 1000 * MIB:
            sent += connection.send(ask)
    except OSError:
        pass
    return [connection], f"stopped after {sent / MIB:.1f} MiB of requests"


def value(server, key=b"huge", size=HUGE, what="a value"):
    with server.connect() as connection:
        send(connection, request(b"SET", key, b"v" * size))
        assert receive(connection, 5) == b"+OK\r\n"
        send(connection, request(b"GET", key))
        head = b"$%d\r\n" % size
        assert receive(connection, len(head)) == head
        left = size + 2
        while left:
            left -= len(receive(connection, min(left, MIB)))
        send(connection, request(b"DEL", key))
        assert receive(connection, 4) == b":1\r\n"
    return [], f"{what} of {HUGE // MIB} MiB"


def key(server):
    return value(server, b"k" * HUGE, 5, "a key")


def request_of_1_gib(server):
    outcomes = []
    for name, head, piece in (
        ("values", b"*5\r\n$4\r\nMSET\r\n$1\r\na\r\n$%d\r\n" % HUGE, b"x" * MIB),
        ("words", b"*100000000\r\n$4\r\nMSET\r\n", b"$6\r\nabcdef\r\n" * 80_000),
        ("inline", b"", b"SET inline " + b"x" * MIB),
    ):
        sent = 0
        with server.connect() as connection:
            connection.settimeout(20)
            send(connection, head)
            while sent < 1100 * MIB and send(connection, piece):
                sent += len(piece)
                if name == "values" and sent == HUGE:
                    send(connection, b"\r\n$1\r\nb\r\n$%d\r\n" % HUGE)
        outcomes.append(f"{name} closed after {sent // MIB} MiB" if sent < 1100 * MIB else f"{name} taken")
    return [], ", ".join(outcomes)


def half(server):
    connections = [server.connect() for _ in range(2000)]
    for connection in connections:
        connection.sendall(b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$100\r\nhalf")
    for connection in connections[1000:]:
        connection.shutdown(socket.SHUT_WR)
    time.sleep(2)
    ended = sum(connection.recv(100) == b"" for connection in connections[1000:])
    return connections, f"2,000 halves, {ended} of 1,000 closed after the client's end"


def files(server):
    connections, refused = [], 0
    for _ in range(2 * a.files):
        try:
            connection = server.connect()
            connection.sendall(request(b"PING"))
            answer = connection.recv(100)
        except OSError:
            answer = b""
        refused += not answer.startswith(b"+PONG")
        connections.append(connection)
    for connection in connections:
        connection.close()
    time.sleep(1)
    with server.connect() as connection:
        connection.sendall(request(b"PING"))
        assert receive(connection, 7) == b"+PONG\r\n"
    return [], f"{refused} of {2 * a.files} refused at {a.files} open files, and served again later"


# What each may take beyond what is stored: buffers of sockets are the kernel's.
CASES = {
    "clients": (clients, 200 * MIB),
    "slow": (slow, 1300 * MIB),
    "pipeline": (pipeline, 100 * MIB),
    "unread": (unread, 100 * MIB),
    "value": (value, 4 * HUGE),
    "key": (key, 4 * HUGE),
    "request": (request_of_1_gib, 3000 * MIB),
    "half": (half, 100 * MIB),
    "files": (files, 100 * MIB),
}
failed = False
print("| case | | before | most | after | served meanwhile | longest wait |\n|---|---|---|---|---|---|---|", flush=True)
for name in a.only.split(",") if a.only else CASES:
    case, bound = CASES[name]
    server = Server(a.files if name == "files" else None)
    fault, held, what = None, [], ""
    try:
        held, what = case(server)
    except (AssertionError, OSError) as error:
        fault = f"{type(error).__name__}: {error}"
    for connection in held:
        connection.close()
    after = server.end()
    fault = server.fault or fault
    if server.most - server.before > bound:
        fault = fault or f"more than {bound // MIB} MiB"
    failed = failed or bool(fault)
    sizes = " | ".join(f"{size / MIB:.0f} MiB" for size in (server.before, server.most, after))
    print(f"| {name} | {fault or what} | {sizes} | {server.served} | {server.longest * 1e3:.0f} ms |", flush=True)
sys.exit(failed)
