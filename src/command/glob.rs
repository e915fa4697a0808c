//! Redis' glob patterns (`stringmatchlen` in its util.c): `*`, `?`, `[a-c]`, `[^a]`, `\` to escape.

/// Returns `true` if `pattern` matches all of `text`. The time is at most the product of both lengths, because
/// only the last `*` is ever tried again.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut pattern, mut text) = (pattern, text);
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', rest @ ..] = pattern {
            if rest.is_empty() {
                return true;
            }
            retry = Some((rest, text));
            pattern = rest;
            continue;
        }
        if pattern.is_empty() && text.is_empty() {
            return true;
        }
        if let [byte, rest @ ..] = text
            && let Some(after) = step(pattern, *byte)
        {
            (pattern, text) = (after, rest);
            continue;
        }
        let Some((after_star, [_, shorter @ ..])) = retry else { return false };
        retry = Some((after_star, shorter));
        (pattern, text) = (after_star, shorter);
    }
}

/// Returns the rest of `pattern` behind its first element if that element matches `byte`, otherwise `None`.
fn step(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [b'?', rest @ ..] => Some(rest),
        [b'[', class @ ..] => step_class(class, byte),
        [b'\\', escaped, rest @ ..] => (*escaped == byte).then_some(rest),
        [literal, rest @ ..] => (*literal == byte).then_some(rest),
        [] => None,
    }
}

/// Returns the pattern after a class if the class matches `byte`. `class` begins after the `[`; an unclosed
/// class ends with the pattern.
fn step_class(class: &[u8], byte: u8) -> Option<&[u8]> {
    let (negated, mut class) = match class {
        [b'^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut found = false;
    let rest = loop {
        match class {
            [b'\\', escaped, rest @ ..] => {
                found |= *escaped == byte;
                class = rest;
            }
            [b']', rest @ ..] => break rest,
            [] => break class,
            [a, b'-', b, rest @ ..] => {
                found |= (*a.min(b)..=*a.max(b)).contains(&byte);
                class = rest;
            }
            [literal, rest @ ..] => {
                found |= *literal == byte;
                class = rest;
            }
        }
    };
    (found != negated).then_some(rest)
}

/// Returns the bytes of a glob pattern with which every matching text begins.
pub fn literal_prefix(pattern: &[u8]) -> &[u8] {
    let end = pattern.iter().position(|byte| b"*?[\\".contains(byte)).unwrap_or(pattern.len());
    pattern.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{literal_prefix, matches};

    #[test]
    fn follows_redis() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "anything", true),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("a*c", "abbbc", true),
            ("a*c", "abbbd", false),
            ("a**c*", "abc", true),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hello", false),
            ("h[^e]llo", "hallo", true),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("h[a-c]llo", "hdllo", false),
            ("h[\\]]llo", "h]llo", true),
            ("h[abc", "ha", true),
            ("h\\*llo", "h*llo", true),
            ("h\\*llo", "hello", false),
            ("a\\", "a\\", true),
            ("*[0-9]", "key:7", true),
            ("*a*b*c*", "xxaxxbxxcxx", true),
            ("*a*b*c*", "xxaxxcxxbxx", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
    fn hostile_patterns_are_quick() {
        assert!(!matches(&b"*a".repeat(2000), &b"a".repeat(1999)));
        assert!(!matches(&[&b"*a".repeat(30)[..], b"b"].concat(), &b"a".repeat(20_000)));
    }

    #[test]
    fn prefixes() {
        assert_eq!(literal_prefix(b"user:*"), b"user:");
        assert_eq!(literal_prefix(b"user:1"), b"user:1");
        assert_eq!(literal_prefix(b"*"), b"");
        assert_eq!(literal_prefix(b"a\\*"), b"a");
    }
}
