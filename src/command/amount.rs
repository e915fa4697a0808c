//! Parser of sizes in bytes, as Redis' settings have them.

/// Parses a number of bytes: `100`, `1k` (1000), `1kb` (1024) and so on. Text without a digit is 0, as in
/// Redis.
pub(super) fn memory(text: &[u8]) -> Option<i64> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, unit) = text.split_at(digits);
    let factor = match unit.to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    if number.is_empty() {
        return Some(0);
    }
    str::from_utf8(number).ok()?.parse::<i64>().ok()?.checked_mul(factor)
}

/// Parses `client-output-buffer-limit`: classes of clients, each with a hard limit, a soft limit and seconds.
/// Returns the new hard limit of normal clients, the only class here; `None` if it does not change.
pub(super) fn buffer_limit(text: &[u8]) -> Result<Option<i64>, &'static str> {
    let words: Vec<&[u8]> = text.split(|byte| *byte == b' ').collect();
    let words: &[&[u8]] = if text.is_empty() { &[] } else { &words };
    if !words.len().is_multiple_of(4) {
        return Err("Wrong number of arguments in buffer limit configuration.");
    }
    let (mut normal, mut has_soft) = (None, false);
    for limits in words.chunks(4) {
        let [class, hard, soft, seconds] = limits else { continue };
        let is_of = |name: &str| class.eq_ignore_ascii_case(name.as_bytes());
        if !["normal", "replica", "slave", "pubsub"].iter().any(|name| is_of(name)) {
            return Err("Invalid client class specified in buffer limit configuration.");
        }
        let (Some(hard), Some(soft), true) = (memory(hard), memory(soft), is_count(seconds)) else {
            return Err("Error in hard, soft or soft_seconds setting in buffer limit configuration.");
        };
        if is_of("normal") {
            (normal, has_soft) = (Some(hard), soft > 0);
        }
    }
    if has_soft {
        return Err("kvbench has no soft limit: write `normal BYTES 0 0`");
    }
    Ok(normal)
}

/// Returns `true` if `word` is a number that is not negative, as `strtoll` reads it.
fn is_count(word: &[u8]) -> bool {
    let digits = word.strip_prefix(b"+").unwrap_or(word);
    digits.iter().all(u8::is_ascii_digit) && (word.is_empty() || !digits.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_of_a_thousand_or_of_1024() {
        for (text, bytes) in [
            ("100", Some(100)),
            ("2k", Some(2000)),
            ("2Kb", Some(2048)),
            ("1gb", Some(1 << 30)),
            ("", Some(0)),
            ("mb", Some(0)),
            ("-1", None),
            ("1kbb", None),
        ] {
            assert_eq!(memory(text.as_bytes()), bytes, "{text}");
        }
    }

    #[test]
    fn only_the_hard_limit_of_normal_clients_is_taken() {
        let limit = |text: &str| buffer_limit(text.as_bytes());
        assert_eq!(limit("normal 1mb 0 0 slave 256mb 64mb 60"), Ok(Some(1 << 20)));
        assert_eq!(limit("pubsub 32mb 8mb 60"), Ok(None));
        assert!(limit("normal 1mb 1kb 60").unwrap_err().contains("soft limit"));
        for wrong in ["normal 1 0", "normal x 0 0", "normal 1 0 -1", "normal 1 0 x", "master 1 0 0"] {
            assert!(limit(wrong).is_err(), "{wrong}");
        }
    }
}
