//! What the suites share: stores, targets and cells as the options want them.

use crate::{
    bench::{
        plan::options::{Durability, Foreign, Options, PlanError, Suite},
        result::{
            Access, Cell, Commits, Figure, Loses, Operation, Order, Size, Step, Target, Workload,
            level::Level, numbers,
        },
    },
    engine::{Extent, Fsync, Info, KINDS, reference},
};
use std::thread;

pub(super) fn is_asked_for(options: &Options) -> bool {
    options.stores.iter().any(|store| reference::is_reference(store))
}

/// Heading of the rows, and the cells.
pub(super) type Rows = (&'static str, Vec<Cell>);

/// What the suites share.
pub(super) struct Maker<'o> {
    pub options: &'o Options,
}

impl Maker<'_> {
    pub fn check_stores(&self) -> Result<(), PlanError> {
        for name in &self.options.stores {
            if reference::info(name).is_none() {
                let able = KINDS.iter().map(|kind| kind.info.name).collect::<Vec<_>>().join(", ");
                return Err(PlanError::UnknownStore { name: name.clone(), able });
            }
            let over_wire = self.access() == Access::Wire || self.options.suite == Some(Suite::Kvbench);
            if over_wire && self.options.target.is_none() && reference::is_reference(name) {
                return Err(PlanError::ReferenceOverWire);
            }
        }
        Ok(())
    }

    /// The stores to compare.
    fn stores(&self) -> Vec<&'static Info> {
        match self.options.stores.as_slice() {
            [] => KINDS.iter().map(|kind| kind.info).collect(),
            names => names.iter().filter_map(|name| reference::info(name)).collect(),
        }
    }

    /// The durabilities to compare: without a choice of the user, those of the suite's model.
    fn durabilities(&self) -> &[Durability] {
        const ALWAYS: Durability = Durability::Files(Fsync::Always);
        const NO: Durability = Durability::Files(Fsync::No);
        match (self.options.durabilities.as_slice(), self.options.suite) {
            ([], None) => &[NO],
            ([], Some(Suite::Redb)) => &[ALWAYS],
            ([], Some(_)) => &[ALWAYS, NO, Durability::Memory],
            (asked, _) => asked,
        }
    }

    /// The ways to commit that are compared; over the wire there is one.
    fn commits(&self, access: Access) -> &[Commits] {
        match (self.options.commits.as_slice(), access) {
            ([], _) | (_, Access::Wire) => &[Commits::Own],
            (asked, Access::InProcess) => asked,
        }
    }

    /// In process, unless the options say otherwise.
    pub fn access(&self) -> Access {
        match self.options.wire || self.options.target.is_some() {
            true => Access::Wire,
            false => Access::InProcess,
        }
    }

    pub fn is_in_process(&self, suite: Suite) -> Result<(), PlanError> {
        match self.access() {
            Access::InProcess => Ok(()),
            Access::Wire => Err(PlanError::InProcessOnly(suite.name())),
        }
    }

    /// Every store at every durability it has, each once: a word may be given twice, and to the reference
    /// all durabilities are one. A foreign server stands for all of them.
    pub fn targets(&self, access: Access) -> Vec<Target> {
        if let Some(foreign) = &self.options.target {
            return vec![self.foreign(foreign)];
        }
        let mut targets = Vec::new();
        let levels = self
            .commits(access)
            .iter()
            .flat_map(|commits| self.durabilities().iter().map(move |durability| (*commits, durability)));
        for (commits, durability) in levels {
            for info in self.stores() {
                let commits = if reference::is_reference(info.name) { Commits::Own } else { commits };
                let target = Target { commits, ..self.target(info, access, *durability) };
                if self.lack(info, *durability).is_none() && !targets.contains(&target) {
                    targets.push(target);
                }
            }
        }
        targets
    }

    /// Why a store cannot be opened as it is asked for.
    fn lack(&self, info: &Info, durability: Durability) -> Option<String> {
        let (store, compression) = (info.name, self.options.compression);
        if reference::is_reference(store) && self.options.suite == Some(Suite::Xdag) {
            return Some(format!("{store}: it makes its values, and has none of a file"));
        }
        if !info.compression.contains(&compression) {
            return Some(format!("{store}: it does not compress with {compression}"));
        }
        let homeless = durability == Durability::Memory && !info.in_memory;
        homeless.then(|| format!("{store} in memory: it keeps its data in files"))
    }

    pub fn left_out(&self) -> Vec<String> {
        let mut lacks = Vec::new();
        if self.options.target.is_some() {
            return lacks;
        }
        for durability in self.durabilities() {
            for lack in self.stores().into_iter().filter_map(|info| self.lack(info, *durability)) {
                if !lacks.contains(&lack) {
                    lacks.push(lack);
                }
            }
        }
        lacks
    }

    fn target(&self, info: &Info, access: Access, durability: Durability) -> Target {
        // Nothing that is not stored can be lost.
        let durability = if reference::is_reference(info.name) { Durability::Memory } else { durability };
        Target {
            access,
            store: info.name.into(),
            persistent: durability != Durability::Memory,
            fsync: Some(match durability {
                Durability::Files(fsync) => fsync.to_string(),
                Durability::Memory => Fsync::No.to_string(),
            }),
            commits: Commits::Own,
            loses: Some(info.loss_at(durability).into()),
            cache_bytes: self.options.cache_bytes,
            compression: self.options.compression.to_string(),
            address: None,
            caveats: info.caveats_at(durability).map(Into::into).collect(),
        }
    }

    fn foreign(&self, foreign: &Foreign) -> Target {
        Target {
            access: Access::Wire,
            store: foreign.name.clone(),
            persistent: foreign.durability.is_some_and(|durability| durability != Durability::Memory),
            fsync: match foreign.durability {
                Some(Durability::Files(fsync)) => Some(fsync.to_string()),
                Some(Durability::Memory) => Some(Fsync::No.to_string()),
                None => None,
            },
            commits: Commits::Own,
            // As Redis keeps these words.
            loses: foreign.durability.map(|durability| Loses {
                kill: if durability == Durability::Memory { Extent::Everything } else { Extent::Nothing },
                power_cut: match durability {
                    Durability::Files(Fsync::Always) => Extent::Nothing,
                    Durability::Files(Fsync::EverySec) => Extent::Seconds,
                    Durability::Files(Fsync::No) => Extent::Unwritten,
                    Durability::Memory => Extent::Everything,
                },
            }),
            cache_bytes: 0,
            compression: "none".into(),
            address: Some(foreign.address.clone()),
            caveats: match foreign.durability {
                Some(_) => vec!["its durability is what the user said, not what was seen".into()],
                None => vec!["its durability is not known".into()],
            },
        }
    }

    /// How many keys a suite writes or removes one by one, of `keys`: where each of them waits for the disk,
    /// a part, since the same work for all stores takes the slowest of them so much longer. The user's
    /// `--keys` hold whatever the durability.
    pub fn writes(&self, target: &Target, keys: u64) -> u64 {
        const SYNCED: u64 = 20_000;
        match self.options.keys {
            None if Level::of(target).is_durable() => keys.min(SYNCED),
            _ => keys,
        }
    }

    /// Writes or removals of `count` keys, each once: as many for every store, whatever `--seconds`.
    pub fn by_count(&self, name: &str, operation: Operation, count: u64) -> Workload {
        let workload = self.workload(name, &[(operation, 1.0)], 0.0);
        Workload { seconds: None, operations: Some(count), warmup_seconds: 0.0, ..workload }
    }

    /// A workload with the options' limits, or `seconds` when they have none.
    pub fn workload(&self, name: &str, mix: &[(Operation, f64)], seconds: f64) -> Workload {
        let cores = thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        Workload {
            name: name.into(),
            mix: mix.iter().copied().collect(),
            keys: 0,
            key_bytes: Size::Fixed(16),
            value_bytes: Size::Fixed(100),
            value_entropy: self.options.value_entropy,
            order: Order::Uniform,
            threads: self.options.threads.unwrap_or(cores),
            batch: 1,
            seconds: match (self.options.seconds, self.options.operations) {
                (None, None) => Some(seconds),
                (seconds, _) => seconds,
            },
            operations: self.options.operations,
            warmup_seconds: self.options.warmup_seconds,
            rate: None,
            scan_length: 1,
            seed: self.options.seed,
            step: Step::Operations,
            hashed_keys: true,
            data: None,
        }
    }

    /// What the harness costs: gets of one thread from an engine that does nothing.
    pub fn floor(&self) -> Option<Cell> {
        if self.access() == Access::Wire || is_asked_for(self.options) {
            return None;
        }
        let info = reference::info(reference::NOTHING)?;
        let mut workload = self.workload("floor", &[(Operation::Get, 1.0)], 1.0);
        workload.keys = self.options.keys.unwrap_or(1_000_000).clamp(1, 1_000_000);
        workload.threads = 1;
        // Long enough whatever the others have: the first tenth of a second meets cold memory.
        (workload.warmup_seconds, workload.seconds) = (0.1, Some(0.5));
        workload.operations = None;
        let target = self.target(info, Access::InProcess, Durability::Memory);
        let mut cell = cell("harness", target, workload, "get");
        cell.table = "harness floor".into();
        cell.reference = true;
        Some(cell)
    }
}

/// A cell of `suite` in the row `row` of its store's column.
pub(super) fn cell(suite: &str, target: Target, workload: Workload, row: &str) -> Cell {
    let level = Level::of(&target);
    let access = level.access_words();
    let column = match (target.persistent, &target.address) {
        (false, None) if !reference::is_reference(&target.store) => format!("{}/memory", target.store),
        _ => target.store.clone(),
    };
    let place = access.replace(", ", "-").replace(' ', "-");
    Cell {
        id: format!(
            "{suite}/{place}/{}/{}/t{}/b{}/{}",
            target.store,
            level.durability_word(),
            workload.threads,
            workload.batch,
            row.replace(' ', "-")
        ),
        table: format!("{suite}: {}, {access}", level.durability_words()),
        row: row.into(),
        column,
        reference: reference::is_reference(&target.store),
        target,
        workload,
        group: None,
        together: false,
        figure: Figure::Throughput,
    }
}

/// Makes cells a group: measured in one process, in their order.
pub(super) fn group(mut cells: Vec<Cell>) -> Vec<Cell> {
    let name = cells.first().map(|cell| cell.id.clone());
    cells.iter_mut().for_each(|cell| cell.group.clone_from(&name));
    cells
}

/// Says in the heading of the cells' tables how much is done.
pub(super) fn headed(mut cells: Vec<Cell>, work: &str) -> Vec<Cell> {
    cells.iter_mut().for_each(|cell| cell.table = format!("{}; {work}", cell.table));
    cells
}

/// A number of keys for people.
pub(super) fn count(keys: u64) -> String {
    numbers::grouped(keys as f64)
}
