//! The house's order, read from its `use` lines and from the paths in its code: imports point down only, and no files
//! import each other in a circle, be it by a path like `child::function()` or `super::function()`. `pub use` is a module's
//! face, not an import; modules of tests are not looked at.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "this crate is all tests; clippy sees only the functions with #[test]"
)]

mod cli_words;
mod engine_names;
mod rocksdb_cxx;
mod scripts;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path as FilePath,
};
use syn::{Attribute, Item, ItemUse, Meta, UseTree, Visibility};

/// The floors, top first. What stands in one line imports nothing of the others in that line.
const FLOORS: &[&[&str]] = &[
    &["main"],
    &["cli"],
    &["server", "bench", "torture", "top"],
    &["config", "interrupt"],
    &["command", "testing"],
    &["store", "resp"],
    &["engine"],
];

/// The stages of the benchmark, top first.
const STAGES: &[&[&str]] = &[
    &["report", "compare", "reproduce", "duel"],
    &["calibrate"],
    &["run"],
    &["plan"],
    &["data"],
    &["result"],
];

/// The parts of `command`, top first.
const COMMANDS: &[&[&str]] = &[
    &["table"],
    &["data", "admin"],
    &["execute"],
    &["spec"],
    &["session"],
    &["server_state"],
    &["state"],
    &["error", "long_double", "flags", "glob", "process_usage"],
];

/// The parts of `engine`, top first. `engine` itself has the traits, and hands on what the parts have.
const ENGINE: &[&[&str]] = &[
    &["registry"],
    &["synthetic"],
    &["stores"],
    &["memory_table"],
    &["aof"],
    &["check"],
    &["cluster_access", "files", "mmap_read_ahead", "page_cache", "refusal"],
    &["batch"],
    &["error"],
    &["description"],
    &["options"],
    &["machine_memory", "key_value_headers", "mutex"],
];

/// Engines that are made of another one.
const MADE_OF: &[(&str, &str)] = &[("rocksdb_blob", "rocksdb")];

type Module = Vec<String>;

/// One file: what it imports, and what its face hands on.
#[derive(Default)]
struct File {
    imports: Vec<Module>,
    face: BTreeMap<String, Module>,
}

struct House {
    files: BTreeMap<Module, File>,
}

impl House {
    fn read() -> Self {
        let mut house = Self { files: BTreeMap::new() };
        house.walk(FilePath::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &[]);
        assert!(house.files.len() > 50, "{} files", house.files.len());
        house
    }

    fn walk(&mut self, folder: &FilePath, place: &[String]) {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
            let inside = |name: &str| place.iter().cloned().chain([name.to_owned()]).collect::<Module>();
            if path.is_dir() && name != "tests" {
                self.walk(&path, &inside(&name));
            } else if let Some(stem) = name.strip_suffix(".rs").filter(|stem| !is_of_tests_only(stem)) {
                let module = match stem {
                    "lib" => Vec::new(),
                    "mod" => place.to_vec(),
                    stem => inside(stem),
                };
                let text = fs::read_to_string(&path).unwrap();
                let items = syn::parse_file(&text).unwrap().items;
                let mut file = File::of(&items, &module);
                inline_paths(&text, &children(&items))
                    .into_iter()
                    .for_each(|path| file.add(path, &module, false));
                self.files.insert(module.clone(), file);
            }
        }
    }

    /// The file that a path leads to: through the faces of modules, to the longest module that is a file.
    fn file_of(&self, path: &[String]) -> Option<Module> {
        let longest = (1..=path.len()).rev().find(|&length| self.files.contains_key(&path[..length]))?;
        let (module, rest) = path.split_at(longest);
        let face = rest.first().and_then(|name| self.files[module].face.get(name));
        match face {
            Some(target) if target != path => self.file_of(target),
            _ => Some(module.to_vec()),
        }
    }

    /// Every import between two files of the house.
    fn edges(&self) -> BTreeSet<(Module, Module)> {
        let edges = self.files.iter().flat_map(|(from, file)| {
            file.imports.iter().filter_map(|path| Some((from.clone(), self.file_of(path)?)))
        });
        edges.filter(|(from, to)| from != to).collect()
    }
}

impl File {
    fn of(items: &[Item], module: &[String]) -> Self {
        let mut file = Self::default();
        for item in items {
            if let Item::Use(item) = item
                && !is_of_tests(item)
            {
                for path in leaves(&item.tree, &[]) {
                    file.add(path, module, !matches!(item.vis, Visibility::Inherited));
                }
            }
        }
        file
    }

    /// Paths of other crates lead to no file and are left out later.
    fn add(&mut self, path: Module, module: &[String], public: bool) {
        let mut absolute: Module = match path[0].as_str() {
            "crate" | "kvbench" => Vec::new(),
            _ => module.to_vec(),
        };
        for part in path {
            match part.as_str() {
                "crate" | "kvbench" | "self" => {}
                "super" => {
                    absolute.pop();
                }
                _ => absolute.push(part),
            }
        }
        match absolute.last().cloned() {
            Some(name) if public => drop(self.face.insert(name, absolute)),
            _ => self.imports.push(absolute),
        }
    }
}

/// Whether a file of this name has tests and nothing else.
fn is_of_tests_only(stem: &str) -> bool {
    stem == "tests" || stem.ends_with("_tests")
}

/// Whether it stands behind `cfg(test)`, alone or with more; behind a feature or a system it is an import as any other.
fn is_of_tests(item: &ItemUse) -> bool {
    let is_test = |attribute: &Attribute| {
        let Meta::List(list) = &attribute.meta else { return false };
        let condition = list.tokens.to_string();
        let mut words = condition.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        attribute.path().is_ident("cfg") && !condition.contains("not") && words.any(|word| word == "test")
    };
    item.attrs.iter().any(is_test)
}

/// Paths that stand in code, not in a `use`, and lead to the crate's root, to the module above or to one of `children`;
/// up to the tests at the end of a file.
fn inline_paths(text: &str, children: &BTreeSet<String>) -> Vec<Module> {
    let leads_to_a_file = |path: &Module| {
        path.len() > 1 && (["crate", "super"].contains(&path[0].as_str()) || children.contains(&path[0]))
    };
    let (mut paths, mut in_use) = (Vec::new(), false);
    for line in text.lines().map(str::trim).take_while(|line| *line != "mod tests {") {
        in_use |= line.starts_with("use ") || (line.starts_with("pub") && line.contains(" use "));
        if !in_use && !line.starts_with("//") {
            paths.extend(paths_of(line).into_iter().filter(leads_to_a_file));
        }
        in_use &= !line.ends_with(';');
    }
    paths
}

/// The paths of a line, without those of macros and of `pub(in ...)`.
fn paths_of(line: &str) -> Vec<Module> {
    let is_of_path = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    let words = line.split(|letter| !is_of_path(letter)).filter(|word| word.contains("::"));
    let own = words.filter(|word| {
        let before = &line[..word.as_ptr() as usize - line.as_ptr() as usize];
        !before.ends_with('$') && !before.ends_with("in ")
    });
    own.map(|word| word.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect()).collect()
}

/// The files that a file declares as its modules.
fn children(items: &[Item]) -> BTreeSet<String> {
    let modules = items.iter().filter_map(|item| match item {
        Item::Mod(module) if module.content.is_none() => Some(module.ident.to_string()),
        _ => None,
    });
    modules.collect()
}

fn leaves(tree: &UseTree, before: &[String]) -> Vec<Module> {
    let with = |name: &syn::Ident| before.iter().cloned().chain([name.to_string()]).collect::<Module>();
    match tree {
        UseTree::Path(path) => leaves(&path.tree, &with(&path.ident)),
        UseTree::Name(name) => vec![with(&name.ident)],
        UseTree::Rename(name) => vec![with(&name.ident)],
        UseTree::Glob(_) => vec![before.to_vec()],
        UseTree::Group(group) => group.items.iter().flat_map(|tree| leaves(tree, before)).collect(),
    }
}

fn floor(floors: &[&[&str]], module: Option<&String>) -> Option<usize> {
    floors.iter().position(|names| module.is_some_and(|module| names.contains(&module.as_str())))
}

/// Fails when an import runs upwards, or between two rooms of one floor.
fn assert_downward(floors: &[&[&str]], edges: &[(Module, Module)], depth: usize) {
    for (from, to) in edges {
        let floors_of = (floor(floors, from.get(depth)), floor(floors, to.get(depth)));
        if let (Some(upper), Some(lower)) = floors_of {
            let down = upper < lower || from.get(depth) == to.get(depth);
            assert!(down, "{} imports {}, which is not below it", from.join("/"), to.join("/"));
        }
    }
}

#[test]
fn imports_point_down() {
    let edges: Vec<_> = House::read().edges().into_iter().collect();
    assert!(edges.len() > 200, "{} imports", edges.len());
    assert_downward(FLOORS, &edges, 0);
    let in_bench = |module: &Module| module.first().is_some_and(|name| name == "bench");
    let edges: Vec<_> = edges.into_iter().filter(|(from, to)| in_bench(from) && in_bench(to)).collect();
    assert_downward(STAGES, &edges, 1);
}

/// A family is a file of `data` or `admin`. None imports another family, the table or the module `command`.
#[test]
fn families_of_commands_know_only_what_all_share() {
    let house = House::read();
    let inside = |module: &Module| module.first().is_some_and(|name| name == "command");
    let is_family = |module: &Module| {
        inside(module) && module.len() == 3 && ["data", "admin"].contains(&module[1].as_str())
    };
    let edges: Vec<_> = house.edges().into_iter().filter(|(a, b)| inside(a) && inside(b)).collect();
    assert!(edges.len() > 10, "{} imports", edges.len());
    assert_downward(COMMANDS, &edges, 1);
    assert!(house.files.keys().filter(|module| is_family(module)).count() > 10);
    let wrong = edges.iter().filter(|(from, to)| is_family(from) && (is_family(to) || *to == ["command"]));
    assert_eq!(wrong.collect::<Vec<_>>(), Vec::<&(Module, Module)>::new());
    let names: BTreeSet<_> =
        house.files.keys().filter(|module| inside(module)).filter_map(|module| module.get(1)).collect();
    let missing: Vec<_> = names.into_iter().filter(|name| floor(COMMANDS, Some(name)).is_none()).collect();
    assert!(missing.is_empty(), "not in COMMANDS: {missing:?}");
}

/// An engine is a file or folder of its own, which another one may not need.
#[test]
fn engines_know_only_what_all_share() {
    let inside = |module: &Module| module.first().is_some_and(|name| name == "engine");
    let house = House::read();
    let edges: Vec<_> = house.edges().into_iter().filter(|(a, b)| inside(a) && inside(b)).collect();
    assert!(edges.len() > 100, "{} imports", edges.len());
    assert_downward(ENGINE, &edges, 1);
    let store = |module: &Module| match &module[..] {
        [_, stores, store, ..] if stores == "stores" => Some(store.clone()),
        _ => None,
    };
    let pairs = edges.iter().filter_map(|(from, to)| Some((store(from)?, store(to)?)));
    let pairs: BTreeSet<_> = pairs.filter(|(from, to)| from != to).collect();
    let expected = MADE_OF.iter().map(|(from, to)| (from.to_string(), to.to_string()));
    assert_eq!(pairs, expected.collect(), "engines that import another one");
}

#[test]
fn every_folder_has_its_floor() {
    let house = House::read();
    let top: BTreeSet<_> = house.files.keys().filter_map(|module| module.first()).collect();
    let missing: Vec<_> = top.into_iter().filter(|name| floor(FLOORS, Some(name)).is_none()).collect();
    assert!(missing.is_empty(), "not in FLOORS: {missing:?}");
    for (folder, floors) in [("bench", STAGES), ("engine", ENGINE)] {
        let inside = house.files.keys().filter(|module| module.first().is_some_and(|name| name == folder));
        let parts: BTreeSet<_> = inside.filter_map(|module| module.get(1)).collect();
        assert!(parts.len() > 5, "{parts:?}");
        let missing: Vec<_> = parts.into_iter().filter(|name| floor(floors, Some(name)).is_none()).collect();
        assert!(missing.is_empty(), "parts of {folder} without a floor: {missing:?}");
    }
}

#[test]
fn the_top_of_src_holds_folders_only() {
    let entries = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src")).unwrap().map(Result::unwrap);
    let files = entries.filter(|entry| !entry.path().is_dir());
    let names: BTreeSet<_> = files.map(|file| file.file_name().into_string().unwrap()).collect();
    assert_eq!(names, ["lib.rs", "main.rs"].map(str::to_owned).into());
}

#[test]
fn only_tests_may_import_what_they_like() {
    let of = |text: &str| {
        let file = File::of(&syn::parse_file(text).unwrap().items, &["a".to_owned()]);
        file.imports.into_iter().map(|path| path.join("/")).collect::<Vec<_>>()
    };
    assert_eq!(of("#[cfg(test)] use crate::b;"), [""; 0]);
    assert_eq!(of("#[cfg(all(test, unix))] use crate::b;"), [""; 0]);
    assert_eq!(of("#[cfg(feature = \"c\")] use crate::b;"), ["b"]);
    assert_eq!(of("#[cfg(target_os = \"linux\")] use crate::b;"), ["b"]);
}

#[test]
fn paths_in_code_are_found() {
    let text = "use crate::a::{\n    crate::b,\n};\n/// crate::c\nfn f(x: &crate::d::E) -> crate::g::H {\n\
                $crate::i();\npub(in crate::j) fn k() {}\nsuper::n(m::o(), std::mem::take(p::q));\n}\n\
                mod tests {\n    crate::l::m();\n}\n";
    let children = children(&syn::parse_file("mod m; mod tests { mod p; }").unwrap().items);
    let found: Vec<_> = inline_paths(text, &children).into_iter().map(|path| path.join("/")).collect();
    assert_eq!(found, ["crate/d/E", "crate/g/H", "super/n", "m/o"]);
}

/// The groups of files that import each other, directly or around corners.
fn circles(edges: &BTreeSet<(Module, Module)>) -> BTreeSet<BTreeSet<Module>> {
    let reach = |start: &Module| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![start]);
        while let Some(file) = next.pop() {
            for (_, to) in edges.iter().filter(|(from, _)| from == file) {
                if seen.insert(to.clone()) {
                    next.push(to);
                }
            }
        }
        seen
    };
    let reached: BTreeMap<_, _> = edges.iter().map(|(from, _)| (from.clone(), reach(from))).collect();
    let both =
        |a: &Module, b: &Module| reached[a].contains(b) && reached.get(b).is_some_and(|r| r.contains(a));
    let with = |file: &Module| reached[file].iter().filter(|other| both(file, other)).cloned().collect();
    reached.keys().map(with).filter(|circle: &BTreeSet<_>| !circle.is_empty()).collect()
}

#[test]
fn no_circles() {
    let circles = circles(&House::read().edges());
    let names = |circle: &BTreeSet<Module>| circle.iter().map(|file| file.join("/")).collect::<Vec<_>>();
    let found: Vec<_> = circles.iter().map(names).collect();
    assert!(found.is_empty(), "files that import each other: {found:?}");
}

#[test]
fn a_circle_is_found() {
    let file = |name: &str| vec![name.to_owned()];
    let edges = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("e", "a")];
    let edges = edges.map(|(from, to)| (file(from), file(to)));
    let found = circles(&edges.into());
    assert_eq!(found, [["a", "b", "c"].map(file).into()].into());
}
