//! What the suites share: stores, targets and cells as the options want them.

use crate::{
    bench::{
        plan::options::{Durability, Foreign, Options, PlanError, Suite},
        result::{
            Access, Cell, Commits, Figure, Loses, Operation, Order, Size, Step, Target, Workload, floor,
            level::Level, numbers,
        },
    },
    engine::{Extent, Fsync, Info, kinds, reference},
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
        if self.options.suite == Some(Suite::Kvbench) && !self.options.commits.is_empty() {
            return Err(PlanError::GroupsOverWire);
        }
        for name in &self.options.stores {
            if reference::info(name).is_none() {
                let able = kinds().map(|kind| kind.info.name).collect::<Vec<_>>().join(", ");
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
            [] => kinds().map(|kind| kind.info).collect(),
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

    /// What the harness costs: for each kind of work in process, the same over an engine that does nothing.
    /// Of scans there is none, since it would have to make the pairs.
    pub fn floors(&self, cells: &[Cell]) -> Vec<Cell> {
        let mut floors: Vec<Cell> = Vec::new();
        let Some(info) = reference::info(reference::NOTHING).filter(|_| !is_asked_for(self.options)) else {
            return floors;
        };
        let target = self.target(info, Access::InProcess, Durability::Memory);
        let jobs = cells.chunk_by(|one, next| one.group.is_some() && one.group == next.group);
        for job in jobs {
            let mut keys = 0;
            for cell in job.iter().filter(|cell| has_floor(cell)) {
                keys = cell.workload.keys.max(keys);
                let workload = floor(&cell.workload, keys);
                // A cell of the same group finds what those before it have inserted.
                keys = cell.workload.most_keys().max(keys);
                let row = workload.name.clone();
                let mut made = self::cell("harness", target.clone(), workload, &row);
                made.table = "harness floor".into();
                let same = |floor: &Cell| {
                    floor.id == made.id || floor::is_same_work(&floor.workload, &made.workload)
                };
                if !floors.iter().any(same) {
                    floors.push(made);
                }
            }
        }
        floors
    }
}

fn has_floor(cell: &Cell) -> bool {
    let work = &cell.workload;
    cell.target.access == Access::InProcess
        && work.step == Step::Operations
        && work.data.is_none()
        && !cell.together
        && !work.kinds().any(|kind| kind == Operation::Scan)
}

/// The same operations, for a moment: long enough whatever the others have, since the first tenth of a second
/// meets cold memory.
fn floor(work: &Workload, keys: u64) -> Workload {
    const COUNT: u64 = 20_000;
    let fills = work.kinds().all(|kind| kind == Operation::Insert);
    let keys = if fills { 0 } else { keys.min(1_000_000) };
    let mut floor = Workload { rate: None, keys, ..work.clone() };
    match work.is_steady() {
        true => (floor.warmup_seconds, floor.seconds, floor.operations) = (0.1, Some(0.5), None),
        false => floor.operations = work.operations.map(|count| count.min(COUNT)),
    }
    floor
}

/// A cell for each rate, of those that can go on at one.
pub(super) fn at_rates(cells: Vec<Cell>, rates: &[f64]) -> Vec<Cell> {
    if rates.is_empty() {
        return cells;
    }
    let mut paced = Vec::new();
    for step in cells.chunk_by(|_, next| next.together) {
        let steady = |cell: &Cell| cell.workload.step == Step::Operations && cell.workload.is_steady();
        if !step.first().is_some_and(steady) {
            paced.extend_from_slice(step);
            continue;
        }
        for rate in rates {
            paced.extend(step.iter().map(|cell| at_rate(cell, *rate)));
        }
    }
    paced
}

/// What runs beside another cell goes as fast as it can.
fn at_rate(cell: &Cell, rate: f64) -> Cell {
    let mut cell = cell.clone();
    cell.workload.rate = (!cell.together).then_some(rate);
    cell.id = format!("{}/{rate}-a-second", cell.id);
    // Where a row has several parts, the first one tells what is measured.
    let (first, rest) = cell.row.split_once(" | ").unwrap_or((&cell.row, ""));
    let separator = if rest.is_empty() { "" } else { " | " };
    cell.row = format!("{first} at {rate}/s{separator}{rest}");
    cell
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
