//! Decimal numbers in the extended precision of x86, C's `long double`, with which Redis computes INCRBYFLOAT.
//!
//! On other processors Redis computes with more or fewer digits; most Redis clients see the results of x86.
//! Text is parsed as by `strtold`, and written as by `%.17Lf` without trailing zeros.

use std::{
    cmp::Ordering,
    fmt::{self, Write},
};

/// Maximum length of the text of a number in Redis, in bytes.
const MAX_TEXT: usize = 5 * 1024 - 1;

/// Minimum exponent of the lowest mantissa bit of a number in x86's extended precision: that of the smallest numbers.
const MIN_EXPONENT: i32 = -16_445;

/// Maximum exponent of the lowest mantissa bit of a finite number in x86's extended precision.
const MAX_EXPONENT: i32 = 16_320;

/// Number `mantissa * 2^exponent`, or infinity. The highest of the 64 mantissa bits is set, except in the
/// smallest numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extended {
    negative: bool,
    infinite: bool,
    mantissa: u64,
    exponent: i32,
}

impl Extended {
    pub(super) const ZERO: Self =
        Self { negative: false, infinite: false, mantissa: 0, exponent: MIN_EXPONENT };

    fn infinity(negative: bool) -> Self {
        Self { negative, infinite: true, ..Self::ZERO }
    }

    /// Parses a number; `None` if `text` is not entirely a number, or is NaN, too large or too small.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        if text.len() > MAX_TEXT {
            return None;
        }
        let (negative, digits) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        if digits.eq_ignore_ascii_case(b"inf") || digits.eq_ignore_ascii_case(b"infinity") {
            return Some(Self::infinity(negative));
        }
        let number = match digits {
            [b'0', b'x' | b'X', digits @ ..] => Digits::parse(digits, 16, b'p')?.hexadecimal(),
            digits => Digits::parse(digits, 10, b'e')?.decimal(),
        };
        let number = Self { negative, ..number? };
        (!number.infinite).then_some(number)
    }

    /// Returns the sum of two numbers; `None` if it is infinite or undefined.
    pub(super) fn add(self, other: Self) -> Option<Self> {
        if self.infinite || other.infinite {
            return None;
        }
        let low = self.exponent.min(other.exponent);
        let [a, b] = [self, other].map(|number| {
            // Exponents are between -16,446 and 16,321.
            Natural::from(number.mantissa).shifted((number.exponent - low) as u32)
        });
        let (negative, sum) = match (self.negative == other.negative, a.cmp(&b)) {
            (true, _) => (self.negative, a.plus(&b)),
            (false, Ordering::Greater) => (self.negative, a.minus(&b)),
            (false, Ordering::Less) => (other.negative, b.minus(&a)),
            (false, Ordering::Equal) => (false, Natural::default()),
        };
        let sum = Self::round(&sum, false, low);
        (!sum.infinite).then_some(Self { negative, ..sum })
    }

    /// Returns the number nearest to `natural * 2^exponent`, or to a slightly larger number if `more`; of two
    /// equally near numbers, the one with an even mantissa.
    fn round(natural: &Natural, more: bool, exponent: i32) -> Self {
        let surplus = natural.bits() as i32 - 64;
        let cut = surplus.max(MIN_EXPONENT - exponent);
        if cut <= 0 {
            // Exact, unless `more` is set; callers ensure that the surplus is below the last of 64 bits.
            let mantissa = natural.shifted(cut.unsigned_abs()).low();
            return Self { mantissa, exponent: exponent + cut, ..Self::ZERO }.normal();
        }
        let (kept, half, rest) = natural.cut(cut as u32);
        let is_up = half && (rest || more || kept & 1 == 1);
        let (mantissa, carry) = kept.overflowing_add(u64::from(is_up));
        let (mantissa, exponent) =
            if carry { (1 << 63, exponent + cut + 1) } else { (mantissa, exponent + cut) };
        Self { mantissa, exponent, ..Self::ZERO }.normal()
    }

    fn normal(self) -> Self {
        if self.mantissa == 0 {
            return Self { exponent: MIN_EXPONENT, ..self };
        }
        if self.exponent > MAX_EXPONENT {
            return Self::infinity(false);
        }
        let room = self.mantissa.leading_zeros().min((self.exponent - MIN_EXPONENT).unsigned_abs());
        Self { mantissa: self.mantissa << room, exponent: self.exponent - room as i32, ..self }
    }
}

/// Writes the number as `%.17Lf` without trailing zeros; zero has no sign.
impl fmt::Display for Extended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scaled = Natural::from(self.mantissa).times(10u64.pow(17));
        let rounded = if self.exponent >= 0 {
            scaled.shifted(self.exponent.unsigned_abs())
        } else {
            scaled.divided(self.exponent.unsigned_abs())
        };
        let digits = format!("{:0>18}", rounded.decimal());
        let (whole, decimals) = digits.split_at(digits.len() - 17);
        let decimals = decimals.trim_end_matches('0');
        let sign = if self.negative && (whole != "0" || !decimals.is_empty()) { "-" } else { "" };
        let point = if decimals.is_empty() { "" } else { "." };
        write!(f, "{sign}{whole}{point}{decimals}")
    }
}

/// Parsed digits and exponent of a number.
struct Digits {
    digits: Vec<u8>,
    /// Number of digits of the parsed number that follow its decimal point.
    behind: usize,
    exponent: i32,
}

impl Digits {
    /// Parses all of `text` as a number of the given base, with the letter `mark` before an exponent.
    fn parse(text: &[u8], base: u32, mark: u8) -> Option<Self> {
        let (mut digits, mut point, mut at) = (Vec::new(), None, 0);
        while let Some(&byte) = text.get(at) {
            match char::from(byte).to_digit(base) {
                Some(digit) => digits.push(digit as u8),
                None if byte == b'.' && point.is_none() => point = Some(digits.len()),
                None => break,
            }
            at += 1;
        }
        if digits.is_empty() {
            return None;
        }
        let exponent = match text.get(at..)? {
            [] => 0,
            [letter, exponent @ ..] if letter.eq_ignore_ascii_case(&mark) => parse_exponent(exponent)?,
            _ => return None,
        };
        let behind = point.map_or(0, |point| digits.len() - point);
        Some(Self { digits, behind, exponent })
    }

    fn natural(&self, base: u64) -> Natural {
        // 15 hexadecimal digits have 60 bits.
        self.digits.chunks(15).fold(Natural::default(), |sum, chunk| {
            let next = |(scale, value), digit: &u8| (scale * base, value * base + u64::from(*digit));
            let (scale, value) = chunk.iter().fold((1, 0), next);
            sum.times(scale).plus(&value.into())
        })
    }

    fn hexadecimal(&self) -> Option<Extended> {
        let exponent = self.exponent.saturating_sub(4 * self.behind as i32).clamp(-100_000, 100_000);
        let natural = self.natural(16);
        let number = Extended::round(&natural, false, exponent);
        (natural.bits() == 0 || number.mantissa > 0 || number.infinite).then_some(number)
    }

    fn decimal(&self) -> Option<Extended> {
        let natural = self.natural(10);
        let power = self.exponent.saturating_sub(self.behind as i32);
        if natural.bits() == 0 {
            return Some(Extended::ZERO);
        }
        // Outside this range, even the longest text is too large or too small.
        if !(-15_000..=10_000).contains(&power) {
            return (power > 0).then_some(Extended::infinity(false));
        }
        let number = if power >= 0 {
            Extended::round(&natural.times_power_of_ten(power.unsigned_abs()), false, 0)
        } else {
            let divisor = Natural::from(1).times_power_of_ten(power.unsigned_abs());
            // The quotient has 66 or 67 bits; `more` is `true` if the division left a remainder.
            let shift = (divisor.bits() + 66) as i32 - natural.bits() as i32;
            let [natural, divisor] = [(natural, shift), (divisor, -shift)]
                .map(|(number, by)| number.shifted(by.max(0).unsigned_abs()));
            let (quotient, more) = natural.divided_by(&divisor);
            Extended::round(&quotient, more, -shift)
        };
        (number.mantissa > 0 || number.infinite).then_some(number)
    }
}

/// Parses a sign and digits. The result is limited to a million.
fn parse_exponent(text: &[u8]) -> Option<i32> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0, |sum: i32, digit| (sum * 10 + i32::from(digit - b'0')).min(1_000_000));
    Some(if negative { -value } else { value })
}

/// Natural number of any size: limbs of 32 bits, the lowest first; the highest is not 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Natural(Vec<u32>);

impl From<u64> for Natural {
    fn from(number: u64) -> Self {
        Self(vec![number as u32, (number >> 32) as u32]).trimmed()
    }
}

impl Natural {
    fn trimmed(mut self) -> Self {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        self
    }

    fn limb(&self, index: usize) -> u32 {
        self.0.get(index).copied().unwrap_or(0)
    }

    fn bits(&self) -> u32 {
        self.0.last().map_or(0, |last| 32 * self.0.len() as u32 - last.leading_zeros())
    }

    /// Returns the lowest 64 bits of the natural number.
    fn low(&self) -> u64 {
        u64::from(self.limb(0)) | u64::from(self.limb(1)) << 32
    }

    fn cmp(&self, other: &Self) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }

    fn plus(&self, other: &Self) -> Self {
        let mut carry = 0;
        let limbs = (0..=self.0.len().max(other.0.len())).map(|index| {
            carry += u64::from(self.limb(index)) + u64::from(other.limb(index));
            let limb = carry as u32;
            carry >>= 32;
            limb
        });
        Self(limbs.collect()).trimmed()
    }

    /// Returns `self - other`; `other` must not be larger than `self`.
    fn minus(&self, other: &Self) -> Self {
        let mut borrow = 0;
        let limbs = (0..self.0.len()).map(|index| {
            let difference = i64::from(self.limb(index)) - i64::from(other.limb(index)) - borrow;
            borrow = i64::from(difference < 0);
            difference as u32
        });
        Self(limbs.collect()).trimmed()
    }

    fn times(&self, factor: u64) -> Self {
        let mut carry: u128 = 0;
        let mut limbs: Vec<u32> = Vec::with_capacity(self.0.len() + 2);
        for limb in &self.0 {
            carry += u128::from(*limb) * u128::from(factor);
            limbs.push(carry as u32);
            carry >>= 32;
        }
        while carry > 0 {
            limbs.push(carry as u32);
            carry >>= 32;
        }
        Self(limbs).trimmed()
    }

    fn times_power_of_ten(&self, power: u32) -> Self {
        let mut product = (0..power / 19).fold(self.clone(), |product, _| product.times(10u64.pow(19)));
        product = product.times(10u64.pow(power % 19));
        product
    }

    fn shifted(&self, by: u32) -> Self {
        let mut limbs = vec![0; (by / 32) as usize];
        limbs.extend_from_slice(&self.0);
        Self(limbs).trimmed().times(1 << (by % 32))
    }

    /// Returns the 64 bits above the lowest `by` bits, the highest of the latter, and `true` if any other of
    /// the latter is set.
    fn cut(&self, by: u32) -> (u64, bool, bool) {
        let bit = |index: u32| self.limb((index / 32) as usize) >> (index % 32) & 1 == 1;
        let kept = (0..64).fold(0, |kept, index| kept | u64::from(bit(by + index)) << index);
        (kept, bit(by - 1), (0..by - 1).any(bit))
    }

    /// Returns the number divided by 2^`by`, rounded to the nearest integer; of two equally near integers, the even
    /// one.
    fn divided(&self, by: u32) -> Self {
        let bit = |index: u32| self.limb((index / 32) as usize) >> (index % 32) & 1 == 1;
        let whole = (by / 32) as usize;
        let limbs = (whole..self.0.len()).map(|index| {
            let both = u64::from(self.limb(index)) | u64::from(self.limb(index + 1)) << 32;
            (both >> (by % 32)) as u32
        });
        let quotient = Self(limbs.collect()).trimmed();
        let (half, rest) = (by > 0 && bit(by - 1), (0..by.saturating_sub(1)).any(bit));
        if half && (rest || quotient.limb(0) & 1 == 1) { quotient.plus(&1.into()) } else { quotient }
    }

    /// Returns the quotient of the division by `divisor`, and `true` if there is a remainder.
    fn divided_by(&self, divisor: &Self) -> (Self, bool) {
        let (mut quotient, mut rest) = (Self::default(), self.clone());
        for shift in (0..=self.bits().saturating_sub(divisor.bits())).rev() {
            let shifted = divisor.shifted(shift);
            quotient = quotient.shifted(1);
            if rest.cmp(&shifted) != Ordering::Less {
                rest = rest.minus(&shifted);
                quotient = quotient.plus(&1.into());
            }
        }
        (quotient, rest.bits() > 0)
    }

    fn decimal(&self) -> String {
        const NINE: u64 = 1_000_000_000;
        let (mut rest, mut parts) = (self.clone(), Vec::new());
        while rest.bits() > 0 {
            let mut remainder = 0;
            for limb in rest.0.iter_mut().rev() {
                let value = remainder << 32 | u64::from(*limb);
                *limb = (value / NINE) as u32;
                remainder = value % NINE;
            }
            rest = rest.trimmed();
            parts.push(remainder);
        }
        let mut text = parts.pop().unwrap_or(0).to_string();
        for part in parts.iter().rev() {
            // Writing to a String cannot fail.
            let _ = write!(text, "{part:09}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(a: &str, b: &str) -> Option<String> {
        let [a, b] = [a, b].map(|text| Extended::parse(text.as_bytes()).unwrap());
        a.add(b).map(|sum| sum.to_string())
    }

    #[test]
    fn numbers_with_many_digits_are_rounded_as_a_whole() {
        let nines = "9".repeat(4800);
        for digits in
            [&nines, "1", "123456789012345", "1234567890123456", "100000000000000000000000000000001"]
        {
            assert_eq!(Digits::parse(digits.as_bytes(), 10, b'e').unwrap().natural(10).decimal(), *digits);
        }
        assert_eq!(sum(&nines, "0"), sum("1e4800", "0"));
        assert_eq!(sum(&format!("{nines}.5"), "0"), sum("1e4800", "0"));
        // The half is exact, and what follows it decides.
        let half = "18446744073709551616.5";
        assert_eq!(sum(half, "0").as_deref(), Some("18446744073709551616"));
        let more = format!("18446744073709551617.{}1", "0".repeat(4000));
        assert_eq!(sum(&more, "0").as_deref(), Some("18446744073709551618"));
        let tie = format!("18446744073709551617.{}", "0".repeat(4000));
        assert_eq!(sum(&tie, "0").as_deref(), Some("18446744073709551616"));
        assert_eq!(sum(&format!("0.{}1", "0".repeat(4000)), "0").as_deref(), Some("0"));
    }

    /// Sums equal the replies of redis-server 7.0.15 on x86, which computes with `long double`.
    #[test]
    fn sums_have_extended_precision() {
        for (a, b, expected) in [
            ("0", "1", "1"),
            ("1.5", "1.5", "3"),
            ("3", "1.1", "4.1"),
            ("10.5", "0.1", "10.6"),
            ("5.0e3", "200", "5200"),
            ("1", "-1.1", "-0.1"),
            ("0.1", "0.2", "0.3"),
            ("-0", "0", "0"),
            ("17179869184", "0.00000001", "17179869184.00000000931322575"),
            ("0x10", "0x1.8p1", "19"),
            ("18446744073709551615", "1", "18446744073709551616"),
            ("1e30", "1", "1000000000000000000024696061952"),
            ("1e-30", "0", "0"),
        ] {
            assert_eq!(sum(a, b).as_deref(), Some(expected), "{a} + {b}");
        }
        assert_eq!(sum("1.1e4932", "1.1e4932"), None);
    }

    #[test]
    fn invalid_numbers_are_refused() {
        for text in ["", " 1", "1 ", "x", "nan", "1.2.3", "1e", "--1", "0x", "1e5000", "1e-6000", ".", "1p1"]
        {
            assert_eq!(Extended::parse(text.as_bytes()), None, "{text:?}");
        }
        for text in [".5", "5.", "+1", "-0x.8P-3", "1E+2", "0e99999999999"] {
            assert!(Extended::parse(text.as_bytes()).is_some(), "{text:?}");
        }
        // A number (minus infinity) with which every sum is an error.
        let infinite = Extended::parse(b"-Inf").unwrap();
        assert!(infinite.add(Extended::ZERO).is_none());
    }
}
