//! Fsync policies of a run: `--may-lose`, defaults, and the length of cells under `everysec`.

#[cfg(feature = "redb")]
use crate::support::bench::{bench, stderr};
use crate::support::bench::{measurement, result_of};
use kvbench::{
    bench::{
        plan::{
            options::{CustomWorkload, Options, Preset, RunConditions},
            suites,
        },
        result::{Loses, Operation},
    },
    engine::{Durability, Fsync, LossClass},
};

fn both(class: LossClass) -> Loses {
    Loses { kill: class, power_cut: class }
}

fn sessions() -> Options {
    let mix = [(Operation::Get, 0.9), (Operation::Update, 0.1)].into();
    Options { custom: CustomWorkload { mix, ..CustomWorkload::default() }, ..Options::default() }
}

/// Store and policy of each cell.
fn policies(options: &Options) -> Vec<(String, Fsync)> {
    let cells = suites::plan(options).unwrap().cells;
    let own = cells.into_iter().filter(|cell| !cell.reference);
    own.map(|cell| (cell.target.store, cell.target.fsync.unwrap())).collect()
}

/// Each store has the policy with the fewest syncs that loses no more; one that always loses more is left out.
#[test]
fn may_lose_chooses_a_policy_for_each_store() {
    for class in [LossClass::Nothing, LossClass::Seconds, LossClass::Everything] {
        let most = both(class);
        let options = Options { may_lose: Some(most), ..sessions() };
        let plan = suites::plan(&options).unwrap();
        for kind in kvbench::engine::kinds() {
            let within = |fsync: &Fsync| Loses::from(kind.info.loss(*fsync)).is_within(most);
            let expected = Fsync::ALL.into_iter().rev().find(within);
            let found = policies(&options).into_iter().find(|(store, _)| store == kind.info.name);
            assert_eq!(found.map(|(_, fsync)| fsync), expected, "{}", kind.info.name);
            let reason = plan.left_out.iter().any(|line| line.starts_with(&format!("{}: ", kind.info.name)));
            assert_eq!(reason, expected.is_none(), "{}: {:?}", kind.info.name, plan.left_out);
        }
        let tables: std::collections::HashSet<_> =
            plan.cells.iter().filter(|cell| !cell.reference).map(|cell| &cell.table).collect();
        assert_eq!(tables.len(), 1, "one table: {tables:?}");
    }
}

/// Work that only reads leaves no store out, and each has the policy that it has for work that writes.
#[test]
fn may_lose_of_work_that_only_reads_leaves_no_store_out() {
    for class in [LossClass::Nothing, LossClass::Seconds] {
        let options = Options { may_lose: Some(both(class)), ..Options::default() };
        let found = policies(&options);
        assert_eq!(found.len(), kvbench::engine::kinds().count(), "no store is left out");
        for kind in kvbench::engine::kinds() {
            let within = |fsync: &Fsync| Loses::from(kind.info.loss(*fsync)).is_within(both(class));
            let expected = Fsync::ALL.into_iter().rev().find(within).unwrap_or(Fsync::Always);
            assert!(found.contains(&(kind.info.name.to_owned(), expected)), "{}: {found:?}", kind.info.name);
        }
        let tables: std::collections::HashSet<_> = suites::plan(&options)
            .unwrap()
            .cells
            .into_iter()
            .filter(|cell| !cell.reference)
            .map(|cell| cell.table)
            .collect();
        assert_eq!(tables.len(), 1, "one table: {tables:?}");
    }
}

/// In a suite, a store that loses too much is measured with the workloads that only read.
#[test]
fn work_of_a_suite_that_only_reads_ignores_may_lose() {
    let suite = suites::find("ycsb");
    let options = Options { suite, may_lose: Some(both(LossClass::Nothing)), ..Options::default() };
    let plan = suites::plan(&options).unwrap();
    let own: Vec<_> = plan.cells.iter().filter(|cell| !cell.reference).collect();
    let stores_of = |row: &str| own.iter().filter(|cell| cell.row == row).count();
    let all = kvbench::engine::kinds().count();
    let lossless = |info: &kvbench::engine::Info| {
        Loses::from(info.loss(Fsync::Always)).is_within(both(LossClass::Nothing))
    };
    let allowed = kvbench::engine::kinds().filter(|kind| lossless(kind.info)).count();
    assert!(allowed < all);
    assert_eq!((stores_of("c"), stores_of("a"), stores_of("load")), (all, allowed, allowed));
    let tables: std::collections::HashSet<_> = own.iter().map(|cell| &cell.table).collect();
    assert_eq!(tables.len(), 1, "one table: {tables:?}");
    let told = plan.left_out.iter().filter(|line| line.ends_with("; only its reads are measured"));
    assert_eq!(told.count(), all - allowed, "{:?}", plan.left_out);
    let writes = Options { workloads: vec!["a".to_owned()], ..options };
    let plan = suites::plan(&writes).unwrap();
    assert_eq!(plan.cells.iter().filter(|cell| !cell.reference).count(), allowed);
    assert_eq!(
        plan.left_out.iter().filter(|line| line.ends_with(" under each policy")).count(),
        all - allowed
    );
}

#[test]
fn policies_without_flags_are_those_of_the_server_and_the_next() {
    let distinct = |options: &Options| {
        let mut found: Vec<_> = policies(options).into_iter().map(|(_, fsync)| fsync).collect();
        found.sort_by_key(|fsync| fsync.as_str());
        found.dedup();
        found
    };
    assert_eq!(distinct(&sessions()), [Fsync::Always, Fsync::EverySec]);
    let ycsb = Options { suite: suites::find("ycsb"), ..Options::default() };
    assert_eq!(distinct(&ycsb), Fsync::ALL);
    let ycsb = suites::plan(&ycsb).unwrap().cells;
    assert!(ycsb.iter().all(|cell| cell.reference || cell.target.persistent), "memory only when asked for");
}

/// A cell of half a second would have no sync of a timer of one second.
#[test]
fn cells_under_everysec_last_for_syncs_also_with_quick() {
    let preset = Some(Preset { seconds: 0.5, keys: Some(20_000) });
    let conditions = RunConditions { preset, ..RunConditions::default() };
    let seconds = |durabilities: Vec<Durability>| {
        let options = Options { durabilities, conditions: conditions.clone(), ..sessions() };
        let cells = suites::plan(&options).unwrap().cells;
        let own = cells.iter().filter(|cell| !cell.reference);
        let mut found: Vec<_> = own.filter_map(|cell| cell.workload.seconds).collect();
        found.dedup();
        found
    };
    assert_eq!(seconds(vec![Durability::Files(Fsync::No)]), [0.5]);
    assert_eq!(seconds(vec![Durability::Files(Fsync::EverySec)]), [3.0]);
    // All cells are as long: those of different lengths could not be compared.
    assert_eq!(seconds(vec![Durability::Files(Fsync::No), Durability::Files(Fsync::EverySec)]), [3.0]);
}

#[test]
fn syncs_of_the_timer_are_in_the_result_in_process_and_over_the_wire() {
    let dir = tempfile::tempdir().unwrap();
    let flags =
        ["--mix", "get=0.5,update=0.5", "--stores", "map", "--keys", "200", "--quick", "--repetitions", "1"];
    for wire in [&[][..], &["--wire"]] {
        let run =
            result_of(dir.path(), &[&flags[..], &["--fsync", "everysec", "--rate", "500"], wire].concat());
        std::fs::remove_file(dir.path().join("result.json")).unwrap();
        let own = run.samples.iter().find(|sample| sample.cell.contains("/map/")).unwrap();
        let measured = measurement(&own.outcome);
        assert!(measured.timer_syncs >= Some(1), "{:?}", measured.timer_syncs);
        assert!(measured.seconds >= 3.0, "{}", measured.seconds);
    }
    let run = result_of(dir.path(), &[&flags[..], &["--fsync", "no"]].concat());
    assert!(run.samples.iter().all(|sample| measurement(&sample.outcome).timer_syncs.is_none()));
}

#[test]
#[cfg(feature = "redb")]
fn may_lose_is_read_for_a_kill_and_for_a_power_cut() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--mix", "get=0.9,update=0.1", "--stores", "redb,map", "--dry-run"];
    for (loss, redb, map) in [
        ("nothing", "always", "always"),
        ("second", "everysec", "everysec"),
        ("power=second", "always", "everysec"),
        ("kill=nothing,power=second", "always", "everysec"),
        ("anything", "no", "no"),
    ] {
        let output = bench(dir.path(), &[&flags[..], &["--may-lose", loss]].concat());
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        for (store, policy) in [("redb", redb), ("map", map)] {
            assert!(text.contains(&format!("/{store}/{policy}/")), "{loss}: {text}{}", stderr(&output));
        }
    }
    for (loss, words) in
        [("minute", "choose nothing, second or anything"), ("disk=second", "kill=nothing,power=second")]
    {
        let output = bench(dir.path(), &[&flags[..], &["--may-lose", loss]].concat());
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
    let output = bench(dir.path(), &[&flags[..], &["--may-lose", "second", "--fsync", "no"]].concat());
    assert!(!output.status.success() && stderr(&output).contains("--fsync"), "{}", stderr(&output));
}
