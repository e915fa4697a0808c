//! Patterns of KEYS match what a slow matcher says, which knows nothing of the fast one; and all that a pattern
//! matches begins with its literal prefix.
#![no_main]

use kvbench::command::glob;
use libfuzzer_sys::fuzz_target;

/// The bytes that the first element of a pattern matches, which is no `*`, and the pattern behind it.
fn element(pattern: &[u8]) -> (Vec<u8>, &[u8]) {
    match pattern {
        [b'?', rest @ ..] => ((0..=255).collect(), rest),
        [b'[', b'^', class @ ..] => {
            let (members, rest) = class_of(class);
            ((0..=255).filter(|byte| !members.contains(byte)).collect(), rest)
        }
        [b'[', class @ ..] => class_of(class),
        [b'\\', escaped, rest @ ..] => (vec![*escaped], rest),
        [byte, rest @ ..] => (vec![*byte], rest),
        [] => (Vec::new(), pattern),
    }
}

fn class_of(class: &[u8]) -> (Vec<u8>, &[u8]) {
    let (mut members, mut at) = (Vec::new(), 0);
    while at < class.len() {
        match class[at] {
            b']' => return (members, &class[at + 1..]),
            b'\\' if at + 1 < class.len() => {
                members.push(class[at + 1]);
                at += 2;
            }
            first if at + 2 < class.len() && class[at + 1] == b'-' => {
                let last = class[at + 2];
                members.extend(first.min(last)..=first.max(last));
                at += 3;
            }
            byte => {
                members.push(byte);
                at += 1;
            }
        }
    }
    (members, &[])
}

fn slow(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern, text) {
        ([], _) => text.is_empty(),
        ([b'*', rest @ ..], _) => (0..=text.len()).any(|skipped| slow(rest, &text[skipped..])),
        (_, []) => false,
        (_, [byte, after @ ..]) => {
            let (members, rest) = element(pattern);
            members.contains(byte) && slow(rest, after)
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&cut, bytes)) = data.split_first() else { return };
    let (pattern, text) = bytes.split_at(usize::from(cut).min(bytes.len()));
    let matched = glob::matches(pattern, text);
    let prefix = glob::literal_prefix(pattern);
    assert!(!matched || text.starts_with(prefix));
    // What the slow one takes is exponential.
    if pattern.len() <= 24 && text.len() <= 24 && pattern.iter().filter(|byte| **byte == b'*').count() <= 5 {
        assert_eq!(matched, slow(pattern, text));
    }
});
