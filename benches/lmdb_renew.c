// The price of LMDB's read transactions: GETs that each begin one, renew one, or share one.
//
//     lmdb=$(echo ~/.cargo/registry/src/*/lmdb-master-sys-*/lmdb/libraries/liblmdb)
//     cc -O2 -I$lmdb benches/lmdb_renew.c $lmdb/mdb.c $lmdb/midl.c -lpthread -o lmdb_renew
//     mkdir data && ./lmdb_renew data 1000
//
// The three take turns in bursts of 4096 GETs of keys at random. Prints medians of CPU time for each GET, and medians and
// quartiles of the ratios of neighbours.
#include "lmdb.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 400, BURST = 4096, BEGIN = 0, RENEW = 1, SHARE = 2, WAYS = 3 };

static void check(int error) {
    if (error) {
        fprintf(stderr, "%s\n", mdb_strerror(error));
        exit(1);
    }
}

static double cpu_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static int compare(const void *a, const void *b) {
    double one = *(const double *)a, other = *(const double *)b;
    return (one > other) - (one < other);
}

static char text[24];

static MDB_val key_of(unsigned long number) {
    MDB_val key = {16, text};
    snprintf(text, sizeof text, "%016lx", number * 0x9E3779B97F4A7C15ul);
    return key;
}

static double burst(MDB_env *env, MDB_dbi db, unsigned long keys, int way) {
    static unsigned long random = 3;
    static volatile long sum;
    MDB_txn *txn;
    MDB_val value;
    if (way != BEGIN) check(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
    if (way == RENEW) mdb_txn_reset(txn);
    double begin = cpu_ns();
    for (int i = 0; i < BURST; i++) {
        random = random * 6364136223846793005ul + 1442695040888963407ul;
        MDB_val key = key_of((random >> 33) % keys);
        if (way == BEGIN) check(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
        if (way == RENEW) check(mdb_txn_renew(txn));
        check(mdb_get(txn, db, &key, &value));
        sum += *(char *)value.mv_data;
        if (way == BEGIN) mdb_txn_abort(txn);
        if (way == RENEW) mdb_txn_reset(txn);
    }
    double each = (cpu_ns() - begin) / BURST;
    if (way != BEGIN) mdb_txn_abort(txn);
    return each;
}

int main(int count, char **words) {
    static double times[WAYS][ROUNDS], ratios[WAYS][ROUNDS];
    static char bytes[256];
    if (count != 3) return 2;
    unsigned long keys = strtoul(words[2], NULL, 10);
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi db;
    check(mdb_env_create(&env));
    check(mdb_env_set_mapsize(env, 4ul << 30));
    check(mdb_env_open(env, words[1], MDB_NOSYNC, 0644));
    check(mdb_txn_begin(env, NULL, 0, &txn));
    check(mdb_dbi_open(txn, NULL, MDB_CREATE, &db));
    for (unsigned long number = 0; number < keys; number++) {
        MDB_val key = key_of(number), value = {sizeof bytes, bytes};
        check(mdb_put(txn, db, &key, &value, 0));
    }
    check(mdb_txn_commit(txn));
    for (int round = 0; round < ROUNDS; round++)
        for (int way = 0; way < WAYS; way++) {
            times[way][round] = burst(env, db, keys, way);
            ratios[way][round] = times[way][round] / times[BEGIN][round];
        }
    const char *names[] = {"begin", "renew", "share"};
    for (int way = 0; way < WAYS; way++) {
        qsort(times[way], ROUNDS, sizeof(double), compare);
        qsort(ratios[way], ROUNDS, sizeof(double), compare);
        double *ratio = ratios[way];
        printf("%s: %.0f ns, ratio to begin %.2f (quartiles %.2f, %.2f)\n", names[way], times[way][ROUNDS / 2],
               ratio[ROUNDS / 2], ratio[ROUNDS / 4], ratio[3 * ROUNDS / 4]);
    }
}
