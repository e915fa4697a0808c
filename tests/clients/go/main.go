// Sessions of go-redis and redigo with a server: session PORT... Ends with an error at a wrong reply.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"

	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"
)

var every = everyByte()

var complete = os.Getenv("COMPLETE") != ""

func everyByte() string {
	text := make([]byte, 256)
	for i := range text {
		text[i] = byte(i)
	}
	return string(text)
}

func check(got, expected any) {
	if !reflect.DeepEqual(got, expected) {
		panic(fmt.Sprintf("%v, not %v", got, expected))
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func fails(err error, text string) {
	if err == nil || !strings.Contains(err.Error(), text) {
		panic(fmt.Sprintf("%v, not an error with %q", err, text))
	}
}

func sorted(keys []string) []string {
	sort.Strings(keys)
	return keys
}

func main() {
	for _, port := range os.Args[1:] {
		address := "127.0.0.1:" + port
		goRedis(address, 2)
		goRedis(address, 3)
		redigo(address)
	}
	fmt.Println("done")
}

func goRedis(address string, protocol int) {
	ctx := context.Background()
	client := goredis.NewClient(&goredis.Options{Addr: address, Protocol: protocol, ClientName: "go"})
	defer client.Close()
	check(must(client.FlushDB(ctx).Result()), "OK")
	check(must(client.Ping(ctx).Result()), "PONG")
	check(must(client.ClientGetName(ctx).Result()), "go")

	check(must(client.Set(ctx, every, every, 0).Result()), "OK")
	check(must(client.Get(ctx, every).Result()), every)
	check(client.Get(ctx, "none").Err(), goredis.Nil)
	megabyte := bytes.Repeat([]byte(every), 4096)
	check(must(client.Set(ctx, "big", megabyte, 0).Result()), "OK")
	check(must(client.Get(ctx, "big").Bytes()), megabyte)
	check(must(client.IncrBy(ctx, "n", 42).Result()), int64(42))
	fails(client.Incr(ctx, "big").Err(), "not an integer")
	fails(client.Do(ctx, "NOSUCH").Err(), "unknown command")
	check(must(client.MSet(ctx, "a", 1, "b", "ü字").Result()), "OK")
	check(must(client.MGet(ctx, "a", "b", "none").Result()), []any{"1", "ü字", nil})
	check(sorted(must(client.Keys(ctx, "[bn]*").Result())), []string{"b", "big", "n"})
	check(must(client.ConfigGet(ctx, "maxmemory").Result()), map[string]string{"maxmemory": "0"})

	goRedisPipeline(ctx, client)
	if complete {
		goRedisTransactions(ctx, client)
	}
	check(must(client.FlushDB(ctx).Result()), "OK")
	check(must(client.DBSize(ctx).Result()), int64(0))
}

func goRedisPipeline(ctx context.Context, client *goredis.Client) {
	var counts []*goredis.IntCmd
	must(client.Pipelined(ctx, func(pipe goredis.Pipeliner) error {
		for n := range 1000 {
			pipe.Set(ctx, fmt.Sprint("p", n), n, 0)
			counts = append(counts, pipe.Incr(ctx, "count"))
		}
		return nil
	}))
	for n, count := range counts {
		check(count.Val(), int64(n+1))
	}
}

func goRedisTransactions(ctx context.Context, client *goredis.Client) {
	var count *goredis.IntCmd
	must(client.TxPipelined(ctx, func(pipe goredis.Pipeliner) error {
		pipe.Set(ctx, "t", 1, 0)
		count = pipe.Incr(ctx, "t")
		return nil
	}))
	check(count.Val(), int64(2))
	watched := client.Watch(ctx, func(tx *goredis.Tx) error {
		must(client.Set(ctx, "t", "other", 0).Result())
		_, err := tx.TxPipelined(ctx, func(pipe goredis.Pipeliner) error {
			pipe.Set(ctx, "t", "mine", 0)
			return nil
		})
		return err
	}, "t")
	if !errors.Is(watched, goredis.TxFailedErr) {
		panic(watched)
	}
	check(must(client.Get(ctx, "t").Result()), "other")
	found := map[string]bool{}
	for keys := client.Scan(ctx, 0, "p*", 100).Iterator(); keys.Next(ctx); {
		found[keys.Val()] = true
	}
	check(len(found), 1000)
}

func redigo(address string) {
	conn := must(redis.Dial("tcp", address, redis.DialClientName("redigo")))
	defer conn.Close()
	check(must(redis.String(conn.Do("FLUSHDB"))), "OK")
	check(must(redis.String(conn.Do("CLIENT", "GETNAME"))), "redigo")
	check(must(redis.String(conn.Do("SET", every, every))), "OK")
	check(must(redis.String(conn.Do("GET", every))), every)
	_, err := redis.String(conn.Do("GET", "none"))
	check(err, redis.ErrNil)
	check(must(redis.Int(conn.Do("INCRBY", "n", 42))), 42)
	_, err = conn.Do("INCR", every)
	fails(err, "not an integer")
	check(must(redis.String(conn.Do("MSET", "a", 1, "b", "ü字"))), "OK")
	check(must(redis.Strings(conn.Do("MGET", "a", "b", "none"))), []string{"1", "ü字", ""})

	for n := range 1000 {
		check(conn.Send("SET", fmt.Sprint("p", n), n), nil)
	}
	check(conn.Flush(), nil)
	for range 1000 {
		check(must(redis.String(conn.Receive())), "OK")
	}
	if complete {
		redigoTransactions(conn)
	}
	check(must(redis.String(conn.Do("FLUSHDB"))), "OK")
}

func redigoTransactions(conn redis.Conn) {
	check(conn.Send("MULTI"), nil)
	check(conn.Send("INCR", "n"), nil)
	check(conn.Send("GET", "a"), nil)
	check(must(redis.Values(conn.Do("EXEC"))), []any{int64(43), []byte("1")})

	found, cursor := map[string]bool{}, 0
	for begun := false; !begun || cursor != 0; begun = true {
		reply := must(redis.Values(conn.Do("SCAN", cursor, "MATCH", "p*", "COUNT", 100)))
		var keys []string
		must(redis.Scan(reply, &cursor, &keys))
		for _, key := range keys {
			found[key] = true
		}
	}
	check(len(found), 1000)
}
