// Sessions of node-redis and ioredis with a server: session.mjs PORT. Ends with an error at a wrong
// reply.

import assert from "node:assert/strict";
import { Redis } from "ioredis";
import { RESP_TYPES, WatchError, createClient } from "redis";

const port = Number(process.argv[2]);
const everyByte = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
const megabyte = Buffer.alloc(1 << 20, everyByte);
const sorted = (keys) => [...keys].sort();

async function nodeRedis(RESP) {
  const client = createClient({ RESP, name: "node", socket: { host: "127.0.0.1", port } });
  client.on("error", (error) => assert.fail(error));
  await client.connect();
  await client.flushDb();
  assert.equal(await client.ping(), "PONG");
  assert.equal(await client.clientGetName(), "node");
  assert.equal(await client.clientSetName("renamed"), "OK");
  assert.equal(await client.clientGetName(), "renamed");

  const binary = client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });
  assert.equal(await binary.set(everyByte, everyByte), "OK");
  assert.deepEqual(await binary.get(everyByte), everyByte);
  assert.equal(await binary.set("big", megabyte), "OK");
  assert.deepEqual(await binary.get("big"), megabyte);
  assert.equal(await client.get("none"), null);
  await client.set("ä漢😀", "ü字");
  assert.equal(await client.get("ä漢😀"), "ü字");
  assert.equal(await client.type("big"), "string");

  assert.equal(await client.incr("n"), 1);
  assert.equal(await client.incrBy("n", 41), 42);
  assert.equal(await client.decr("n"), 41);
  await assert.rejects(client.incr("big"), /not an integer/);
  await assert.rejects(client.sendCommand(["NOSUCH"]), /unknown command/);
  assert.equal(await client.mSet({ a: "1", b: "2" }), "OK");
  assert.deepEqual(await client.mGet(["a", "b", "none"]), ["1", "2", null]);
  assert.equal(await client.exists(["a", "b", "none", "a"]), 3);
  assert.equal(await client.del(["a", "none"]), 1);
  assert.deepEqual(sorted(await client.keys("[bn]*")), ["b", "big", "n"]);
  assert.equal(await client.dbSize(), 5);
  assert.match(await client.info(), /redis_version:7\.0\.15\r\n/);
  assert.deepEqual({ ...(await client.configGet("maxmemory")) }, { maxmemory: "0" });

  // Requests of one tick share a write.
  const numbers = Array.from({ length: 1000 }, (_, n) => n);
  const replies = await Promise.all(
    numbers.flatMap((n) => [client.set(`p${n}`, `${n}`), client.get(`p${n}`), client.incr("count")]),
  );
  assert.deepEqual(replies, numbers.flatMap((n) => ["OK", `${n}`, n + 1]));
  if (process.env.COMPLETE) await nodeRedisTransactions(client);
  await client.flushDb();
  assert.equal(await client.dbSize(), 0);
  await client.close();
}

async function nodeRedisTransactions(client) {
  assert.deepEqual(await client.multi().set("t", "1").incr("t").exec(), ["OK", 2]);
  await client.watch("t");
  await client.set("t", "3");
  await assert.rejects(client.multi().set("t", "4").exec(), WatchError);
  assert.equal(await client.get("t"), "3");
  const found = new Set();
  for await (const keys of client.scanIterator({ MATCH: "p*", COUNT: 100 })) keys.forEach((key) => found.add(key));
  assert.equal(found.size, 1000);
}

// Asks INFO before it is ready, and writes its commands in lower case.
async function ioredis() {
  const client = new Redis({ port, host: "127.0.0.1", connectionName: "io" });
  client.on("error", (error) => assert.fail(error));
  assert.equal(await client.ping(), "PONG");
  assert.equal(await client.client("GETNAME"), "io");
  assert.equal(await client.set(everyByte, everyByte), "OK");
  assert.deepEqual(await client.getBuffer(everyByte), everyByte);
  assert.equal(await client.set("big", megabyte), "OK");
  assert.deepEqual(await client.getBuffer("big"), megabyte);
  assert.equal(await client.get("none"), null);
  assert.equal(await client.incrby("n", 42), 42);
  await assert.rejects(client.incr("big"), /not an integer/);
  assert.equal(await client.mset("a", 1, "b", "ü字"), "OK");
  assert.deepEqual(await client.mget("a", "b", "none"), ["1", "ü字", null]);
  assert.deepEqual(sorted(await client.keys("[bn]*")), ["b", "big", "n"]);
  const replies = await client.pipeline().set("x", "text").incr("x").get("x").exec();
  assert.deepEqual([replies[0], replies[2]], [[null, "OK"], [null, "text"]]);
  assert.match(replies[1][0].message, /not an integer/);
  if (process.env.COMPLETE) await ioredisTransactions(client);
  assert.equal(await client.flushdb(), "OK");
  assert.equal(await client.dbsize(), 0);
  assert.equal(await client.quit(), "OK");
}

async function ioredisTransactions(client) {
  assert.deepEqual(await client.multi().set("t", 1).incr("t").exec(), [[null, "OK"], [null, 2]]);
  await client.watch("t");
  await client.set("t", 3);
  assert.equal(await client.multi().set("t", 4).exec(), null);
  await client.mset(Object.fromEntries(Array.from({ length: 1000 }, (_, n) => [`p${n}`, n])));
  const found = new Set();
  for await (const keys of client.scanStream({ match: "p*", count: 100 })) keys.forEach((key) => found.add(key));
  assert.equal(found.size, 1000);
}

await nodeRedis(2);
await nodeRedis(3);
await ioredis();
console.log("done");
