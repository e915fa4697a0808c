//! Redis' errors for requests with an unknown command or a wrong number of arguments.

use super::scope;
use crate::resp::{Args, Reply};

/// Names and arities of a command's subcommands.
pub type Subcommands = &'static [(&'static str, i32)];

/// Returns `true` if `len`, the number of arguments including the name, matches `arity`.
#[inline]
pub(super) fn accepts(arity: i32, len: usize) -> bool {
    if arity < 0 { len >= arity.unsigned_abs() as usize } else { len == arity as usize }
}

/// Returns the lower-case name of the subcommand in `args`; writes Redis' error and returns `None` if it is
/// unknown or has a wrong number of arguments.
pub fn subcommand(
    command: &str,
    subcommands: Subcommands,
    args: Args<'_>,
    reply: &mut Reply,
) -> Option<&'static str> {
    let word = args.get(1);
    let is_named = |(name, _): &&(&'static str, i32)| word.eq_ignore_ascii_case(name.as_bytes());
    let Some((name, arity)) = subcommands.iter().find(is_named) else {
        let hint = format!("'. Try {} HELP.", command.to_ascii_uppercase());
        reply.error([b"ERR unknown subcommand '", quote(word, QUOTED), hint.as_bytes()].concat());
        return None;
    };
    if !accepts(*arity, args.len()) {
        wrong_arity(&format!("{command}|{name}"), reply);
        return None;
    }
    Some(name)
}

/// Returns Redis' error for a subcommand with too many arguments or in an invalid form.
pub(super) fn wrong_shape(command: &str, args: Args<'_>) -> Vec<u8> {
    let (word, hint) = (quote(args.get(1), QUOTED), format!("'. Try {} HELP.", command.to_ascii_uppercase()));
    [b"ERR unknown subcommand or wrong number of arguments for '", word, hint.as_bytes()].concat()
}

pub(super) fn wrong_arity(name: &str, reply: &mut Reply) {
    reply.error(format!("ERR wrong number of arguments for '{name}' command"));
}

/// Writes the error for EXEC with arguments.
pub(super) fn abort(name: &str, reply: &mut Reply) {
    let cause = format!("wrong number of arguments for '{name}' command");
    reply.error(format!("EXECABORT Transaction discarded because of: {cause}"));
}

/// Maximum number of bytes from a request that Redis quotes in an error.
const QUOTED: usize = 128;

/// Returns the first `most` bytes of `word`, as Redis quotes them.
fn quote(word: &[u8], most: usize) -> &[u8] {
    c_string(word.get(..most).unwrap_or(word))
}

/// Returns the part of `word` before its first NUL: most errors of Redis quote a C string.
pub(super) fn c_string(word: &[u8]) -> &[u8] {
    word.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// Writes the error for an unknown command. It quotes arguments up to `QUOTED` bytes, as in Redis; for a
/// command that Redis has, it names the feature that kvbench lacks.
pub(super) fn unknown(args: Args<'_>, reply: &mut Reply) {
    let mut text = b"ERR unknown command '".to_vec();
    text.extend_from_slice(quote(args.get(0), QUOTED));
    if let Some(what) = scope::unsupported_feature(args.get(0)) {
        text.extend_from_slice(format!("': kvbench has strings and keys, and no {what}").as_bytes());
        return reply.error(text);
    }
    text.extend_from_slice(b"', with args beginning with: ");
    let start = text.len();
    for arg in args.from(1) {
        let quoted = text.len() - start;
        if quoted >= QUOTED {
            break;
        }
        text.push(b'\'');
        text.extend_from_slice(quote(arg, QUOTED - quoted));
        text.extend_from_slice(b"' ");
    }
    reply.error(text);
}
