//! Builder of stores, targets and cells from the options, shared by the suites.

use super::cell_transforms::is_alone_and_steady;
use crate::{
    bench::{
        plan::options::{Durability, ExternalServer, Options, PlanError},
        result::{
            Access, Cell, Commits, Loses, Operation, Target, Workload, comparability::Level, number_format,
        },
    },
    engine::{Fsync, Info, LossClass, ReadAhead, absent, absent_hint, kinds, synthetic},
};
use std::{collections::BTreeMap, thread};

/// Name of the program redis-server in `--stores` of `kvbench reproduce kvbench`.
const REDIS: &str = "redis";

/// Returns `true` if `--stores` names the no-op engine.
pub(super) fn names_noop_engine(options: &Options) -> bool {
    options.stores.iter().any(|store| synthetic::is_reference(store))
}

/// Builds targets, workloads and cells from the options.
pub(super) struct CellBuilder<'o> {
    pub options: &'o Options,
}

impl CellBuilder<'_> {
    /// Returns an error if `--stores` or `--commits` has a value that cannot be measured, or if `--wire` or `--target`
    /// is given to a suite that is measured in process only.
    pub fn check(&self) -> Result<(), PlanError> {
        let is_over_wire = self.access() == Access::Wire;
        if is_over_wire && !self.options.commits.is_empty() {
            return Err(PlanError::GroupsOverWire);
        }
        let has_program = self.program().is_some();
        for name in &self.options.stores {
            if has_program && name == REDIS {
                continue;
            }
            let Some(info) = synthetic::info(name) else {
                let redis = has_program.then_some(REDIS);
                let able = kinds().map(|kind| kind.info.name).chain(redis).collect::<Vec<_>>().join(", ");
                let hint = absent_hint(name).map(|hint| format!("; {hint}")).unwrap_or_default();
                return Err(PlanError::UnknownStore { name: name.clone(), able, hint });
            };
            if info.capabilities.multi_writer {
                return Err(PlanError::StoreElsewhere(info.name));
            }
            if is_over_wire && self.options.target.is_none() && synthetic::is_reference(name) {
                return Err(PlanError::ReferenceOverWire);
            }
        }
        match self.options.suite {
            Some(suite) if self.asks_for_wire() && !is_over_wire => Err(PlanError::InProcessOnly(suite.name)),
            _ => Ok(()),
        }
    }

    /// Returns the program that the suite measures beside the stores: redis-server, or none.
    fn program(&self) -> Option<&'static str> {
        self.options.suite?.program
    }

    /// Returns a target for redis-server at each durability; empty if the suite does not measure it, or `--stores`
    /// excludes it.
    pub fn redis(&self) -> Vec<Target> {
        let Some(program) = self.program() else { return Vec::new() };
        if !self.options.stores.is_empty() && !self.options.stores.iter().any(|name| name == REDIS) {
            return Vec::new();
        }
        let target = |durability: &Durability| {
            let (persistent, fsync) = file_and_policy(Some(*durability));
            Target {
                persistent,
                fsync,
                loses: Some(as_redis_loses(*durability)),
                program: Some(program.into()),
                ..Target::new(Access::Wire, REDIS)
            }
        };
        self.durabilities().iter().map(target).collect()
    }

    /// Returns the descriptions of the engines to measure: those of `--stores`, or all of this build.
    fn stores(&self) -> Vec<&'static Info> {
        match self.options.stores.as_slice() {
            [] => kinds().map(|kind| kind.info).collect(),
            // In this suite the name is that of the program, not of the engine for Redis Clusters.
            names => {
                let engines = names.iter().filter(|name| self.program().is_none() || *name != REDIS);
                engines.filter_map(|name| synthetic::info(name)).collect()
            }
        }
    }

    /// Returns the durabilities (fsync policy, or memory) to compare: those of `--fsync`. Without that flag, a suite
    /// has those of the benchmark that it follows, but with `--cold` not memory, and a workload of `--mix` has `always`
    /// and, if it writes, `everysec`.
    fn durabilities(&self) -> Vec<Durability> {
        const ALWAYS: Durability = Durability::Files(Fsync::Always);
        match (self.options.durabilities.as_slice(), self.options.suite) {
            ([], None) if self.only_reads() => vec![ALWAYS],
            ([], None) => vec![ALWAYS, Durability::Files(Fsync::EverySec)],
            ([], Some(suite)) => {
                let is_possible = |durability: &Durability| {
                    !self.options.conditions.cold || *durability != Durability::Memory
                };
                suite.default_fsync.iter().copied().filter(is_possible).collect()
            }
            (asked, _) => asked.to_vec(),
        }
    }

    /// Returns `true` if there is no suite, and `--mix` only reads. Reads lose nothing, so one fsync policy is enough.
    fn only_reads(&self) -> bool {
        self.options.suite.is_none() && !self.options.custom.mix.keys().any(|kind| kind.writes())
    }

    /// Returns the ways to commit that are compared: each thread its own writes, or a commit thread those of all. Over
    /// the wire there is only one. Values with a time to live are always committed in groups.
    fn commits(&self) -> &[Commits] {
        let has_ttl = self.options.custom.ttl_ms.is_some();
        match self.options.commits.as_slice() {
            [] if self.access() == Access::InProcess && has_ttl => &[Commits::Groups],
            [] => &[Commits::Own],
            asked => asked,
        }
    }

    /// Returns the access of the cells: that of the suite. If it has none, `Access::Wire` with `--wire` or `--target`,
    /// otherwise `Access::InProcess`.
    pub fn access(&self) -> Access {
        let asked = if self.asks_for_wire() { Access::Wire } else { Access::InProcess };
        self.options.suite.and_then(|suite| suite.access).unwrap_or(asked)
    }

    /// Returns `true` with `--wire` or `--target`.
    fn asks_for_wire(&self) -> bool {
        self.options.wire || self.options.target.is_some()
    }

    /// Returns a target for every store at every durability that it supports, or with `--may-lose` under its fastest
    /// allowed fsync policy, also for a workload that only reads; if none is allowed, under `always` (see
    /// [`allowed`](Self::allowed)). With `--target`, returns the external server only. A store or a durability that the
    /// user named twice gives one target, as do all durabilities and ways to commit of the no-op engine.
    pub fn targets(&self) -> Vec<Target> {
        if let Some(foreign) = &self.options.target {
            return vec![self.foreign(foreign)];
        }
        let (stores, may_lose) = (self.stores(), self.options.may_lose);
        let at = |durability| stores.iter().map(move |info| (*info, durability));
        let choices: Vec<(&Info, Durability)> = match may_lose {
            Some(most) => {
                let fastest = |info| fastest_within(info, most).unwrap_or(Fsync::Always);
                stores.iter().map(|info| (*info, Durability::Files(fastest(info)))).collect()
            }
            None => self.durabilities().into_iter().flat_map(at).collect(),
        };
        let mut targets = Vec::new();
        for commits in self.commits() {
            for (info, durability) in &choices {
                let commits = if synthetic::is_reference(info.name) { Commits::Own } else { *commits };
                let target = Target { commits, may_lose, ..self.target(info, self.access(), *durability) };
                if self.lack(info, *durability).is_none() && !targets.contains(&target) {
                    targets.push(target);
                }
            }
        }
        self.with_read_ahead(targets)
    }

    /// Returns the allowed loss of `--may-lose`, which leaves no store out of a workload that only reads.
    fn may_lose(&self) -> Option<Loses> {
        self.options.may_lose.filter(|_| !self.only_reads())
    }

    /// Returns `cells` without those that write to a store that loses more than `--may-lose` allows under each fsync
    /// policy. Cells that only read lose nothing, unless they continue on the data of others.
    pub fn allowed(&self, mut cells: Vec<Cell>) -> Vec<Cell> {
        let Some(most) = self.may_lose().filter(|_| self.options.target.is_none()) else { return cells };
        let excess = |cell: &Cell| {
            synthetic::info(&cell.target.store).filter(|info| fastest_within(info, most).is_none())
        };
        cells.retain(|cell| excess(cell).is_none() || (is_alone_and_steady(cell) && !cell.workload.writes()));
        cells
    }

    /// Returns `targets`; with `--cold`, one for each read-ahead setting that its engine offers.
    fn with_read_ahead(&self, targets: Vec<Target>) -> Vec<Target> {
        match self.options.conditions.cold {
            true => targets.into_iter().flat_map(Self::read_ahead_settings).collect(),
            false => targets,
        }
    }

    /// Returns a copy of `target` with and one without read-ahead of the engine's memory map, or `target` alone if the
    /// engine has no such setting. Off is the engine's choice for data larger than memory, where a cold read belongs.
    pub fn read_ahead_settings(target: Target) -> Vec<Target> {
        let maps = synthetic::info(&target.store).is_some_and(|info| info.capabilities.map_size);
        if !maps || !target.persistent || target.read_ahead.is_some() {
            return vec![target];
        }
        [ReadAhead::Off, ReadAhead::On]
            .map(|setting| Target { read_ahead: Some(setting), ..target.clone() })
            .into()
    }

    /// Returns the reason why a store cannot be opened with this durability (fsync policy, or memory) and the
    /// compression of the options, or `None` if it can.
    fn lack(&self, info: &Info, durability: Durability) -> Option<String> {
        let (store, compression) = (info.name, self.options.compression);
        if !info.compression.contains(&compression) {
            return Some(format!("{store}: it does not compress with {compression}"));
        }
        let homeless = durability == Durability::Memory && !info.capabilities.in_memory;
        homeless.then(|| format!("{store} in memory: it keeps its data in files"))
    }

    /// Returns a sentence about each store that `cells` lack, or have for reads only, with the reason.
    pub fn left_out(&self, cells: &[Cell]) -> Vec<String> {
        let mut lacks = Vec::new();
        if self.options.target.is_some() {
            return lacks;
        }
        if self.options.suite.is_some_and(|suite| suite.published.is_some()) && self.options.stores.is_empty()
        {
            // Readers of a reproduced experiment must know of the stores that are missing.
            lacks.extend(absent().map(|(name, feature)| {
                format!("{name}: this build has no such store (cargo feature {feature})")
            }));
        }
        if let Some(most) = self.may_lose() {
            for info in self.stores().into_iter().filter(|info| fastest_within(info, most).is_none()) {
                let loses = Loses::from(info.loss(Fsync::Always));
                let reads = if cells.iter().any(|cell| cell.target.store == info.name) {
                    "; only its reads are measured"
                } else {
                    ""
                };
                lacks.push(format!("{}: {} under each policy{reads}", info.name, loses.excess(most)));
            }
            let always = Durability::Files(Fsync::Always);
            lacks.extend(self.stores().into_iter().filter_map(|info| self.lack(info, always)));
            return lacks;
        }
        for durability in self.durabilities() {
            lacks.extend(self.stores().into_iter().filter_map(|info| self.lack(info, durability)));
        }
        number_format::distinct(lacks.into_iter())
    }

    pub fn target(&self, info: &Info, access: Access, durability: Durability) -> Target {
        // The no-op engine stores nothing, so it cannot lose anything.
        let durability = if synthetic::is_reference(info.name) { Durability::Memory } else { durability };
        let (persistent, fsync) = file_and_policy(Some(durability));
        Target {
            persistent,
            fsync,
            loses: Some(info.loss_at(durability).into()),
            cache_bytes: self.options.cache_bytes,
            compression: self.options.compression,
            caveats: info.caveats_at(durability).map(Into::into).collect(),
            ..Target::new(access, info.name)
        }
    }

    /// Returns a copy of `target` with another durability; with the same one if its store is no engine of this build.
    pub fn at(&self, target: &Target, durability: Durability) -> Target {
        let commits = target.commits;
        match synthetic::info(&target.store) {
            Some(info) => Target { commits, ..self.target(info, target.access, durability) },
            None => target.clone(),
        }
    }

    fn foreign(&self, foreign: &ExternalServer) -> Target {
        let (persistent, fsync) = file_and_policy(foreign.durability);
        Target {
            persistent,
            fsync,
            loses: foreign.durability.map(as_redis_loses),
            address: Some(foreign.address.clone()),
            caveats: match foreign.durability {
                Some(_) => vec!["its durability is what the user said, not what was seen".into()],
                None => vec!["its durability is not known".into()],
            },
            ..Target::new(Access::Wire, foreign.name.clone())
        }
    }

    /// Returns how many of `keys` keys a suite writes or removes one by one. If each commit waits for the
    /// disk, at most 20,000: the count is the same for all stores, and the slowest of them would take very
    /// long. With `--may-lose` the stores have different policies, so the count applies to all of them. A
    /// user's `--keys` applies at any durability.
    pub fn writes(&self, target: &Target, keys: u64) -> u64 {
        const SYNCED: u64 = 20_000;
        match self.options.keys {
            None if Level::of(target).is_durable() || target.may_lose.is_some() => keys.min(SYNCED),
            _ => keys,
        }
    }

    /// Returns a workload that writes or removes `count` keys, each once: the count is the same for every
    /// store, whatever `--seconds` is.
    pub fn by_count(&self, name: &str, operation: Operation, count: u64) -> Workload {
        let workload = self.workload(name, &[(operation, 1.0)], 0.0);
        Workload { seconds: None, operations: Some(count), warmup_seconds: 0.0, ..workload }
    }

    /// Returns the name of the suite in cell ids and table names.
    pub fn suite(&self) -> &'static str {
        self.options.suite.map_or("custom", |suite| suite.name)
    }

    /// Returns a workload of `mix` with defaults that most suites share. It ends by the limits of the options, or after
    /// `seconds` seconds if they have none.
    pub fn workload(&self, name: &str, mix: &[(Operation, f64)], seconds: f64) -> Workload {
        let cores = thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        Workload {
            name: name.into(),
            keys: 0,
            value_entropy: self.options.value_entropy,
            threads: self.options.threads.unwrap_or(cores),
            seconds: match (self.options.wanted_seconds(), self.options.operations) {
                (None, None) => Some(seconds),
                (seconds, _) => seconds,
            },
            operations: self.options.operations,
            // A warm-up would load into the page cache what `--cold` has dropped from it.
            warmup_seconds: if self.options.conditions.cold { 0.0 } else { self.options.warmup_seconds },
            scan_length: 1,
            seed: self.options.seed,
            ..Workload::of(mix.iter().copied().collect::<BTreeMap<_, _>>(), 0)
        }
    }
}

/// Returns the fsync policy of a store with the fewest syncs under which it loses at most `most`, or `None` if there is
/// none. The no-op engine stores nothing, so it cannot lose anything.
fn fastest_within(info: &Info, most: Loses) -> Option<Fsync> {
    let fits =
        |fsync: &Fsync| synthetic::is_reference(info.name) || Loses::from(info.loss(*fsync)).is_within(most);
    Fsync::ALL.into_iter().rev().find(fits)
}

/// Returns `true` if a target with this durability has files, and its fsync policy; `None` if the durability is not
/// known.
fn file_and_policy(durability: Option<Durability>) -> (bool, Option<Fsync>) {
    let fsync = durability.map(|durability| match durability {
        Durability::Files(fsync) => fsync,
        Durability::Memory => Fsync::No,
    });
    (matches!(durability, Some(Durability::Files(_))), fsync)
}

/// Returns the loss bound of Redis at a durability; external servers that follow Redis' policies have the
/// same.
fn as_redis_loses(durability: Durability) -> Loses {
    Loses {
        kill: if durability == Durability::Memory { LossClass::Everything } else { LossClass::Nothing },
        power_cut: match durability {
            Durability::Files(Fsync::Always) => LossClass::Nothing,
            Durability::Files(Fsync::EverySec) => LossClass::Seconds,
            Durability::Files(Fsync::No) => LossClass::Unwritten,
            Durability::Memory => LossClass::Everything,
        },
    }
}
