//! Student's t distribution: how often a mean is a given number of standard errors off by chance.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};

/// Maximum number of degrees of freedom; above it, Student's distribution is practically normal, and the maximum is
/// used.
const MAX_FREEDOM: f64 = 400.0;

/// Returns the two-sided p-value of `t`: the probability of a deviation of at least `t` standard errors by
/// chance. `freedom` is the degrees of freedom, rounded down and limited to 1 to 400.
pub fn two_sided(t: f64, freedom: f64) -> f64 {
    let t = t.abs();
    if t.is_nan() {
        return 1.0;
    }
    let freedom = freedom.clamp(1.0, MAX_FREEDOM).floor();
    (1.0 - within(t, freedom)).clamp(0.0, 1.0).max(tail_bound(t, freedom))
}

/// Returns the critical value of Student's distribution: the number of standard errors that a deviation exceeds by
/// chance, on either side, with probability `p`; at most 1e6. `freedom` is the degrees of freedom.
pub fn critical(p: f64, freedom: f64) -> f64 {
    let off = |logarithm: f64| two_sided(logarithm.exp(), freedom).max(f64::MIN_POSITIVE).ln() - p.ln();
    // The logarithm of p is nearly a line over that of t: false position with the Illinois rule.
    let (mut low, mut high) = (1e-6_f64.ln(), 1e6_f64.ln());
    let (mut at_low, mut at_high) = (off(low), off(high));
    if at_high >= 0.0 || at_low <= 0.0 {
        return if at_low <= 0.0 { 0.0 } else { high.exp() };
    }
    for _ in 0..100 {
        let next = (low * at_high - high * at_low) / (at_high - at_low);
        let at_next = off(next);
        if at_next.abs() < 1e-12 || high - low < 1e-14 {
            return next.exp();
        }
        if at_next > 0.0 {
            (low, at_low, at_high) = (next, at_next, at_high / 2.0);
        } else {
            (high, at_high, at_low) = (next, at_next, at_low / 2.0);
        }
    }
    f64::midpoint(low, high).exp()
}

/// Returns the probability of a value of Student's distribution between `-t` and `t`: the finite series of Abramowitz
/// and Stegun, 26.7.3 and 26.7.4.
fn within(t: f64, freedom: f64) -> f64 {
    let angle = (t / freedom.sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    let odd = freedom % 2.0 > 0.5;
    // Even: 1 + 1/2 cos^2 + 1*3/(2*4) cos^4 + ...; odd: cos + 2/3 cos^3 + 2*4/(3*5) cos^5 + ...
    let (mut term, mut place) = if odd { (cosine, 1.0) } else { (1.0, 0.0) };
    let mut sum = 0.0;
    while place < freedom - 1.0 {
        sum += term;
        term *= cosine * cosine * (place + 1.0) / (place + 2.0);
        place += 2.0;
    }
    match odd {
        true => (angle + sine * sum) * FRAC_2_PI,
        false => sine * sum,
    }
}

/// Returns the least number that [`two_sided`] returns for `t`: an upper bound of the true p-value, or 1e-14 if that is
/// less. For a large `t`, `1 - within(t)` is only rounding noise and may be 0.
fn tail_bound(t: f64, freedom: f64) -> f64 {
    let angle = FRAC_PI_2 - (t / freedom.sqrt()).atan();
    // The probability beyond `t` is below sin(angle)^freedom for all degrees of freedom.
    angle.sin().powf(freedom).min(1e-14)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values: tables of Abramowitz and Stegun, 26.10.
    #[test]
    fn quantiles_match_published_tables() {
        for (freedom, p, t) in [
            (1.0, 0.05, 12.706),
            (2.0, 0.05, 4.303),
            (4.0, 0.05, 2.776),
            (5.0, 0.01, 4.032),
            (8.0, 0.001, 5.041),
        ] {
            assert!((critical(p, freedom) - t).abs() < 0.001, "{freedom} {p}: {}", critical(p, freedom));
            assert!((two_sided(t, freedom) - p).abs() < 1e-4);
        }
        assert!((critical(0.05, 1e9) - 1.966).abs() < 0.001);
    }

    #[test]
    fn far_out_is_rare_but_never_negative() {
        let rare = two_sided(200.0, 8.0);
        assert!(rare > 0.0 && rare < 1e-12, "{rare}");
        assert_eq!(two_sided(f64::NAN, 8.0), 1.0);
        assert!(two_sided(0.0, 3.0) > 0.999_999);
    }
}
