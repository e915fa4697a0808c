//! Parser for decimal integers, as in RESP lengths and in the values of INCR.

/// Parses a signed 64-bit decimal integer as Redis' `string2ll` does: an optional `-`, no `+`, no
/// spaces, no leading zeros.
#[inline]
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let magnitude = match digits {
        [b'0'] if !negative => 0,
        [b'1'..=b'9', ..] if digits.len() <= 19 => digits.iter().try_fold(0u64, |sum, byte| {
            // 19 digits fit a u64.
            byte.is_ascii_digit().then(|| sum * 10 + u64::from(byte - b'0'))
        })?,
        _ => return None,
    };
    if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

#[cfg(test)]
mod tests {
    use super::parse_integer;

    #[test]
    fn accepts_what_redis_accepts() {
        for n in [0, 1, -1, 10, 42, -100, i64::MAX, i64::MIN, i64::MAX - 1] {
            assert_eq!(parse_integer(n.to_string().as_bytes()), Some(n));
        }
    }

    #[test]
    fn refuses_the_rest() {
        for text in [
            "",
            "-",
            "+1",
            "01",
            "-0",
            " 1",
            "1 ",
            "1a",
            "9223372036854775808",
            "-9223372036854775809",
            "99999999999999999999",
            "18446744073709551617",
        ] {
            assert_eq!(parse_integer(text.as_bytes()), None, "{text:?}");
        }
    }
}
