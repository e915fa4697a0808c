//! Inline commands: a line of words, as people type them into telnet.

use super::ArgRange;

/// Splits `data[start..end]` into words as Redis' `sdssplitargs` does: blanks separate words, double quotes
/// take `\n \r \t \b \a \xHH` and `\c`, single quotes take `\'`. Words are unquoted in place, which never makes
/// them longer. A zero byte outside quotes ends the line. Returns `None` if a quote is not closed, or if something
/// other than a blank follows a closing quote.
pub(super) fn split(data: &mut [u8], start: usize, end: usize, spans: &mut Vec<ArgRange>) -> Option<()> {
    let mut at = start;
    loop {
        while at < end && is_space(byte(data, at)) {
            at += 1;
        }
        if at >= end || byte(data, at) == 0 {
            return Some(());
        }
        let word = at;
        let len;
        (at, len) = unquote(data, at, end)?;
        spans.push(ArgRange { start: word as u32, len: len as u32 });
    }
}

/// Unquotes the word at `at` in place. Returns the position after the word and the length of the unquoted word.
fn unquote(data: &mut [u8], mut at: usize, end: usize) -> Option<(usize, usize)> {
    let word = at;
    let mut write = at;
    let mut quote = 0u8;
    loop {
        let here = if at < end { byte(data, at) } else { 0 };
        let mut out = here;
        match (quote, here) {
            (0, 0) => return Some((at, write - word)),
            (_, 0) if at >= end => return None,
            (0, b'"' | b'\'') => {
                quote = here;
                at += 1;
                continue;
            }
            (0, _) if is_space(here) => return Some((at, write - word)),
            (0, _) => at += 1,
            (b'"', b'\\') if at + 1 < end => (at, out) = escape(data, at, end),
            (b'\'', b'\\') if at + 1 < end && byte(data, at + 1) == b'\'' => {
                out = b'\'';
                at += 2;
            }
            _ if here == quote => {
                at += 1;
                if at < end && !is_space(byte(data, at)) {
                    return None;
                }
                return Some((at, write - word));
            }
            _ => at += 1,
        }
        if let Some(slot) = data.get_mut(write) {
            *slot = out;
        }
        write += 1;
    }
}

/// Returns the position after the escape sequence at `at`, and the byte that the sequence stands for.
fn escape(data: &[u8], at: usize, end: usize) -> (usize, u8) {
    let hex = |at: usize| if at < end { char::from(byte(data, at)).to_digit(16) } else { None };
    match byte(data, at + 1) {
        b'x' if let (Some(high), Some(low)) = (hex(at + 2), hex(at + 3)) => (at + 4, (high * 16 + low) as u8),
        b'n' => (at + 2, b'\n'),
        b'r' => (at + 2, b'\r'),
        b't' => (at + 2, b'\t'),
        b'b' => (at + 2, 8),
        b'a' => (at + 2, 7),
        other => (at + 2, other),
    }
}

fn byte(data: &[u8], at: usize) -> u8 {
    data.get(at).copied().unwrap_or(0)
}

/// Returns `true` for the characters of C's `isspace`.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(line: &str) -> Option<Vec<Vec<u8>>> {
        let mut data = line.as_bytes().to_vec();
        let mut spans = Vec::new();
        let end = data.len();
        split(&mut data, 0, end, &mut spans)?;
        Some(spans.iter().map(|s| data[s.start as usize..(s.start + s.len) as usize].to_vec()).collect())
    }

    #[test]
    fn splits_at_blanks() {
        assert_eq!(arguments("  SET  a\tb ").unwrap(), [&b"SET"[..], b"a", b"b"]);
        assert_eq!(arguments("   ").unwrap(), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn unquotes() {
        assert_eq!(
            arguments(r#""a b" 'c\'d' "\x41\n\"\\" '' "" x"y z""#).unwrap(),
            [&b"a b"[..], b"c'd", b"A\n\"\\", b"", b"", b"xy z"]
        );
        assert_eq!(arguments(r#""\xZZ""#).unwrap(), [b"xZZ"]);
    }

    #[test]
    fn refuses_unbalanced_quotes() {
        for line in [r#""a b"#, "'a", r#""a"b"#, "'a'b", r#""a\"#, r#""a\""#] {
            assert_eq!(arguments(line), None, "{line}");
        }
    }
}
