"""A session of redis-py with a server: session.py PORT PROTOCOL [PASSWORD CA]. With a CA it speaks TLS.
Ends with an error at a wrong reply."""

import asyncio
import os
import sys

import redis
import redis.asyncio


def check(got, expected):
    assert got == expected, f"{got!r}, not {expected!r}"


def raises(call, text):
    try:
        call()
    except redis.ResponseError as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"no error with {text!r}")


def text(value):
    """Some replies are decoded in one protocol and not in the other."""
    return value.decode() if isinstance(value, bytes) else value


options = {"port": int(sys.argv[1]), "protocol": int(sys.argv[2])}
if len(sys.argv) > 3:
    options |= {"password": sys.argv[3], "ssl": True, "ssl_ca_certs": sys.argv[4]}
r = redis.Redis(**options, client_name="python")
r.flushdb()

check(r.ping(), True)
check(r.echo("hello"), b"hello")
check(text(r.client_getname()), "python")
check(r.client_setname("renamed"), True)
check(text(r.client_getname()), "renamed")

every_byte = bytes(range(256))
check(r.set(every_byte, every_byte), True)
check(r.get(every_byte), every_byte)
check(r.get("none"), None)
check(r.set("empty", b""), True)
check(r.get("empty"), b"")
check(r.set("\u00e4\u6f22\U0001f600", "\u00fc\u5b57"), True)
check(r.get("\u00e4\u6f22\U0001f600").decode(), "\u00fc\u5b57")
megabyte = every_byte * 4096
check(r.set("big", megabyte), True)
check(r.get("big"), megabyte)
check(r.type("big"), b"string")

check(r.incr("n"), 1)
check(r.incrby("n", 41), 42)
check(r.decr("n", 2), 40)
raises(lambda: r.incr("big"), "not an integer")
raises(lambda: r.execute_command("NOSUCH", "x"), "unknown command")
check(r.get("n"), b"40")

check(r.mset({"a": 1, "b": b"\0\r\n"}), True)
check(r.mget("a", "b", "none"), [b"1", b"\0\r\n", None])
check(r.exists("a", "b", "none", "a"), 3)
check(r.delete("a", "none"), 1)
check(sorted(r.keys("[bn]*")), [b"b", b"big", b"n"])
check(r.dbsize(), 6)

with r.pipeline(transaction=False) as pipe:
    for n in range(1000):
        pipe.set(f"p{n}", n).get(f"p{n}").incr("count")
    replies = pipe.execute()
    check(replies, [x for n in range(1000) for x in (True, str(n).encode(), n + 1)])
with r.pipeline(transaction=False) as pipe:
    pipe.set("x", "text").incr("x").get("x")
    replies = pipe.execute(raise_on_error=False)
    check(isinstance(replies[1], redis.ResponseError), True)
    check((replies[0], replies[2]), (True, b"text"))

check(r.info()["redis_version"], "7.0.15")
check(r.info("server")["redis_mode"], "standalone")
check(r.config_get("maxmemory"), {"maxmemory": "0"})
check(r.command_count() > 20, True)
decoded = redis.Redis(**options, decode_responses=True)
check(decoded.get("x"), "text")
check(r.flushdb(), True)
check(r.dbsize(), 0)


def transactions():
    """Pipelines are transactions unless they are told otherwise."""
    with r.pipeline() as pipe:
        check(pipe.set("t", 1).incr("t").get("t").execute(), [True, 2, b"2"])
    with r.pipeline() as pipe:
        pipe.watch("t")
        r.set("t", "other")
        pipe.multi()
        pipe.set("t", "mine")
        try:
            pipe.execute()
        except redis.WatchError:
            pass
        else:
            raise AssertionError("the watched key had changed")
    check(r.get("t"), b"other")
    check(r.mset({f"p{n}": n for n in range(1000)}), True)
    check(len(set(r.scan_iter("p*", count=100))), 1000)
    check(r.set("e", "v", ex=100, nx=True), True)
    check(0 < r.ttl("e") <= 100, True)
    check(r.flushdb(), True)


async def asynchronous():
    """Clients that share connections, and a pipeline."""
    a = redis.asyncio.Redis(**options, max_connections=20)

    async def one(n):
        await a.set(f"k{n}", n)
        return await a.incr("count"), await a.get(f"k{n}")

    replies = await asyncio.gather(*(one(n) for n in range(20)))
    check(sorted(count for count, _ in replies), list(range(1, 21)))
    check([value for _, value in replies], [str(n).encode() for n in range(20)])
    async with a.pipeline(transaction=COMPLETE) as pipe:
        check(await pipe.set("x", 1).incr("x").execute(), [True, 2])
    check(await a.flushdb(), True)
    await a.aclose()


COMPLETE = "COMPLETE" in os.environ
if COMPLETE:
    transactions()
asyncio.run(asynchronous())
print("done")
