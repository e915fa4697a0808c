// Sessions of Jedis and Lettuce with a server: Session PORT... Ends with an error at a wrong reply.

import io.lettuce.core.ClientOptions;
import io.lettuce.core.KeyScanCursor;
import io.lettuce.core.KeyValue;
import io.lettuce.core.LettuceFutures;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScanArgs;
import io.lettuce.core.TransactionResult;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.protocol.ProtocolVersion;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.Transaction;
import redis.clients.jedis.params.ScanParams;

public class Session {
    static final boolean COMPLETE = System.getenv("COMPLETE") != null;
    static final String HOST = "127.0.0.1";
    static final byte[] EVERY_BYTE = new byte[256];
    static final byte[] MEGABYTE = new byte[1 << 20];

    public static void main(String[] args) {
        for (int i = 0; i < MEGABYTE.length; i++) MEGABYTE[i] = (byte) i;
        System.arraycopy(MEGABYTE, 0, EVERY_BYTE, 0, EVERY_BYTE.length);
        for (String arg : args) {
            int port = Integer.parseInt(arg);
            jedis(port, RedisProtocol.RESP2);
            jedis(port, RedisProtocol.RESP3);
            lettuce(port, ProtocolVersion.RESP2);
            lettuce(port, ProtocolVersion.RESP3);
        }
        System.out.println("done");
        System.exit(0);
    }

    static void check(Object got, Object expected) {
        if (!Objects.deepEquals(got, expected)) throw new AssertionError(got + ", not " + expected);
    }

    static void fails(Runnable call, String text) {
        try {
            call.run();
        } catch (RuntimeException error) {
            check(String.valueOf(error.getMessage()).contains(text), true);
            return;
        }
        throw new AssertionError("no error with " + text);
    }

    static void jedis(int port, RedisProtocol protocol) {
        var config = DefaultJedisClientConfig.builder().protocol(protocol).clientName("jedis").build();
        try (Jedis client = new Jedis(new HostAndPort(HOST, port), config)) {
            check(client.flushDB(), "OK");
            check(client.ping(), "PONG");
            check(client.clientGetname(), "jedis");
            check(client.set(EVERY_BYTE, EVERY_BYTE), "OK");
            check(client.get(EVERY_BYTE), EVERY_BYTE);
            check(client.set("big".getBytes(), MEGABYTE), "OK");
            check(client.get("big".getBytes()), MEGABYTE);
            check(client.get("none"), null);
            check(client.incrBy("n", 42), 42L);
            fails(() -> client.incr("big"), "not an integer");
            check(client.mset("a", "1", "b", "ü字"), "OK");
            check(client.mget("a", "b", "none"), Arrays.asList("1", "ü字", null));
            check(new TreeSet<>(client.keys("[bn]*")), Set.of("b", "big", "n"));
            check(client.configGet("maxmemory"), Map.of("maxmemory", "0"));
            jedisPipeline(client);
            if (COMPLETE) jedisTransactions(client);
            check(client.flushDB(), "OK");
            check(client.dbSize(), 0L);
        }
    }

    static void jedisPipeline(Jedis client) {
        List<Response<Long>> counts = new ArrayList<>();
        try (Pipeline pipe = client.pipelined()) {
            for (int n = 0; n < 1000; n++) {
                pipe.set("p" + n, "" + n);
                counts.add(pipe.incr("count"));
            }
        }
        for (int n = 0; n < 1000; n++) check(counts.get(n).get(), n + 1L);
    }

    static void jedisTransactions(Jedis client) {
        try (Transaction transaction = client.multi()) {
            transaction.set("t", "1");
            transaction.incr("t");
            check(transaction.exec(), List.of("OK", 2L));
        }
        client.watch("t");
        client.set("t", "3");
        try (Transaction transaction = client.multi()) {
            transaction.set("t", "4");
            check(transaction.exec(), null);
        }
        check(client.get("t"), "3");
        Set<String> found = new HashSet<>();
        String cursor = ScanParams.SCAN_POINTER_START;
        do {
            var page = client.scan(cursor, new ScanParams().match("p*").count(100));
            found.addAll(page.getResult());
            cursor = page.getCursor();
        } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
        check(found.size(), 1000);
    }

    static void lettuce(int port, ProtocolVersion protocol) {
        var uri = RedisURI.builder().withHost(HOST).withPort(port).withClientName("lettuce").build();
        RedisClient client = RedisClient.create(uri);
        client.setOptions(ClientOptions.builder().protocolVersion(protocol).build());
        try (var connection = client.connect()) {
            var redis = connection.sync();
            check(redis.flushdb(), "OK");
            check(redis.clientGetname(), "lettuce");
            String every = new String(EVERY_BYTE, StandardCharsets.ISO_8859_1);
            check(redis.set(every, every), "OK");
            check(redis.get(every), every);
            check(redis.get("none"), null);
            check(redis.incrby("n", 42), 42L);
            fails(() -> redis.incr(every), "not an integer");
            check(redis.mset(Map.of("a", "1", "b", "ü字")), "OK");
            check(redis.mget("a", "none"), List.of(KeyValue.just("a", "1"), KeyValue.empty("none")));
            check(redis.configGet("maxmemory"), Map.of("maxmemory", "0"));

            // Requests of one loop share a write.
            var async = connection.async();
            List<RedisFuture<Long>> counts = new ArrayList<>();
            for (int n = 0; n < 1000; n++) {
                async.set("p" + n, "" + n);
                counts.add(async.incr("count"));
            }
            var all = counts.toArray(new RedisFuture[0]);
            check(LettuceFutures.awaitAll(Duration.ofSeconds(30), all), true);
            check(redis.get("count"), "1000");

            if (COMPLETE) lettuceTransactions(redis);
            check(redis.flushdb(), "OK");
        }
        client.shutdown(Duration.ZERO, Duration.ZERO);
    }

    static void lettuceTransactions(RedisCommands<String, String> redis) {
        check(redis.multi(), "OK");
        redis.incr("count");
        redis.get("a");
        TransactionResult replies = redis.exec();
        check(List.of(replies.get(0), replies.get(1)), List.of(1001L, "1"));
        Set<String> found = new HashSet<>();
        var wanted = ScanArgs.Builder.matches("p*").limit(100);
        KeyScanCursor<String> page = redis.scan(wanted);
        while (found.addAll(page.getKeys()) && !page.isFinished()) page = redis.scan(page, wanted);
        check(found.size(), 1000);
    }
}
