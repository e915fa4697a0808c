//! The words of flags derive from the types that they choose: the command line has no enum of its own that repeats one.

use crate::engine_names::files;
use std::{collections::BTreeSet, fs, path::Path};
use syn::{Attribute, Item, Meta};

/// Enums of `src/cli` whose variants are words of flags: file, name and reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("logging.rs", "Format", "the program writes the log, and no other module knows of its formats"),
    ("value_parsers.rs", "YesNo", "the word of a flag that is a bool elsewhere"),
];

fn derives_words(attribute: &Attribute) -> bool {
    let Meta::List(list) = &attribute.meta else { return false };
    let traits = list.tokens.to_string();
    attribute.path().is_ident("derive") && traits.split([',', ' ', ':']).any(|name| name == "ValueEnum")
}

/// The enums of a file whose variants are words of flags.
fn enums(text: &str) -> Vec<String> {
    let of = |item: Item| match item {
        Item::Enum(item) if item.attrs.iter().any(derives_words) => Some(item.ident.to_string()),
        _ => None,
    };
    syn::parse_file(text).unwrap().items.into_iter().filter_map(of).collect()
}

#[test]
fn the_command_line_has_no_enum_of_words_of_its_own() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src/cli"));
    let mut paths = Vec::new();
    files(folder, &mut paths);
    let mut found = BTreeSet::new();
    for path in paths.iter().filter(|path| path.extension().is_some_and(|end| end == "rs")) {
        let place = path.strip_prefix(folder).unwrap().to_str().unwrap();
        let names = enums(&fs::read_to_string(path).unwrap());
        found.extend(names.into_iter().map(|name| (place.to_owned(), name)));
    }
    let expected = EXCEPTIONS.iter().map(|(file, name, _)| (file.to_string(), name.to_string()));
    assert_eq!(found, expected.collect(), "implement ValueEnum for the type that the word chooses");
}

#[test]
fn an_enum_of_words_is_found() {
    let text = "#[derive(Clone, clap::ValueEnum)] enum A { B }\n#[derive(ValueEnum)] enum C { D }\n\
                #[derive(Clone)] enum E { F }\n#[derive(ValueEnumeration)] enum G { H }\n";
    assert_eq!(enums(text), ["A", "C"]);
}
