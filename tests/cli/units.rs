//! Counts, sizes and times with units, wherever a flag asks for one.

use crate::{
    program::{misuse, run, serve, setting},
    support::Server,
};

#[test]
fn counts_sizes_and_times_of_a_server_have_units() {
    let dir = tempfile::tempdir().unwrap();
    let flags = "--path :memory: --maxclients 2k --timeout 5m --tcp-keepalive 1h --cache-size 1_000_000 \
        --client-query-buffer-limit 2MiB --slowlog-log-slower-than 20ms --latency-monitor-threshold 2s --max-unsynced 5s";
    let server = serve(dir.path(), &flags.split_whitespace().collect::<Vec<_>>());
    for (name, value) in [
        ("maxclients", "2000"),
        ("timeout", "300"),
        ("tcp-keepalive", "3600"),
        ("cache-size", "1000000"),
        ("client-query-buffer-limit", "2097152"),
        ("slowlog-log-slower-than", "20000"),
        ("latency-monitor-threshold", "2000"),
        ("max-unsynced", "5"),
    ] {
        assert_eq!(setting(&mut server.connect(), name), value, "{name}");
    }
}

#[test]
fn counts_sizes_and_times_of_a_benchmark_have_units() {
    let dir = tempfile::tempdir().unwrap();
    for flags in [
        "bench --keys 5m --value-bytes 1KiB --seconds 1s --warm-up 500ms --operations 1_000_000 --rate 10k,20k --batch 1k",
        "bench --value-bytes 100-1KiB --key-bytes 16-32 --threads 1_0 --repetitions 3 --scan-length 1k --quiet-wait 1m",
        "bench --cache-size 1GiB --memory-limit 500MB",
        "reproduce redb --keys 5_000 --seconds 250ms --rates 1k --memory-limit 1GB --quiet-wait 0",
        "top --interval 500ms",
    ] {
        let args = flags.split_whitespace().chain(["--help"]);
        // Parsed, then ended by `--help`, which a bad argument before it does not let through.
        let ended = run(dir.path(), &args.collect::<Vec<_>>());
        assert!(ended.status.success(), "{flags}: {}", ended.stderr);
    }
}

/// The dry run prints the numbers that were read.
#[test]
fn units_of_a_benchmark_have_their_value() {
    let dir = tempfile::tempdir().unwrap();
    let plan = |flags: &str| {
        let flags = format!("bench --dry-run --stores map --repetitions 1 --quiet-wait 0 {flags}");
        let ended = run(dir.path(), &flags.split_whitespace().collect::<Vec<_>>());
        assert!(ended.status.success(), "{flags}: {}", ended.stderr);
        // The free space and the time, which is in the name of the result, may change between two runs.
        let lines = ended.stdout.lines().filter(|line| !line.starts_with("result: "));
        lines.map(|line| line.split(", where").next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let plain = plan("--keys 20000 --value-bytes 2048 --seconds 60 --warm-up 0.5");
    assert_eq!(plan("--keys 20k --value-bytes 2KiB --seconds 1m --warm-up 500ms"), plain);
    assert_ne!(plan("--keys 21k --value-bytes 2KiB --seconds 1m --warm-up 500ms"), plain);
}

#[test]
fn errors_of_numbers_show_an_example() {
    for (args, example) in [
        (&["bench", "--keys", "5q"][..], "5000000, 5_000_000 or 5m"),
        // Larger than any disk; the program multiplies it by small factors.
        (&["bench", "--keys", "4611686018427387904"], "5000000, 5_000_000 or 5m"),
        (&["bench", "--value-bytes", "1s"], "64KiB"),
        (&["bench", "--seconds", "1KiB"], "30s"),
        (&["bench", "--seconds", "1e21"], "at most a year, 365d"),
        (&["bench", "--quiet-wait", "1e19"], "at most a year, 365d"),
        (&["bench", "--rate", "fast"], "20k"),
        (&["bench", "--foreign", "101"], "from 0 to 100, such as 10%"),
        (&["--timeout", "soon"], "5m"),
        (&["--cache-size", "much"], "1GB"),
        (&["--cache-size", "0"], "1 byte or more"),
        (&["--map-size", "0"], "1 byte or more"),
        (&["bench", "--cache-size", "0"], "1 byte or more"),
        (&["bench", "--map-size", "0KiB"], "1 byte or more"),
        (&["reproduce", "redb", "--cache-size", "0"], "1 byte or more"),
        (&["--threads", "many"], "such as 1000 or 1k"),
        (&["top", "--interval", "often"], "30s"),
        (&["top", "--count", "0"], "1 or more"),
        #[cfg(all(feature = "torture", target_os = "linux"))]
        (&["torture", "--rounds", "many"], "5m"),
        #[cfg(all(feature = "torture", target_os = "linux"))]
        (&["torture", "--seconds", "0"], "from 1 to"),
    ] {
        let said = misuse(args);
        assert!(said.contains(args[args.len() - 2]) && said.contains(example), "{args:?}: {said}");
        assert!(!said.contains("invalid digit"), "{said}");
    }
}

/// The flags of a configuration file are those of the command line.
#[test]
fn a_configuration_file_has_units_too() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("kvbench.conf"), "path :memory:\ntimeout 2m\n").unwrap();
    let server: Server = serve(dir.path(), &["--config", "kvbench.conf"]);
    assert_eq!(setting(&mut server.connect(), "timeout"), "120");
}
