//! Normal distribution: upper tail and its quantile.

/// Returns the probability that a standard normal variable exceeds `z`. The relative error is below 1.2e-7 (Press
/// and others, Numerical Recipes, section 6.2, `erfcc`).
pub fn tail(z: f64) -> f64 {
    const COEFFICIENTS: [f64; 10] = [
        -1.265_512_23,
        1.000_023_68,
        0.374_091_96,
        0.096_784_18,
        -0.186_288_06,
        0.278_868_07,
        -1.135_203_98,
        1.488_515_87,
        -0.822_152_23,
        0.170_872_77,
    ];
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.5 * x);
    let upper = 0.5 * t * (polynomial(&COEFFICIENTS, t) - x * x).exp();
    if z >= 0.0 { upper } else { 1.0 - upper }
}

/// Returns the number that a standard normal variable exceeds with `probability`, limited to 1e-300 to 1 - 1e-16. The
/// relative error is below 1.2e-9 (Acklam, An algorithm for computing the inverse normal cumulative distribution
/// function, 2003).
pub fn quantile(probability: f64) -> f64 {
    const NUMERATOR: [f64; 6] = [
        2.506_628_277_459_239,
        -3.066_479_806_614_716e1,
        1.383_577_518_672_69e2,
        -2.759_285_104_469_687e2,
        2.209_460_984_245_205e2,
        -3.969_683_028_665_376e1,
    ];
    const DENOMINATOR: [f64; 6] = [
        1.0,
        -1.328_068_155_288_572e1,
        6.680_131_188_771_972e1,
        -1.556_989_798_598_866e2,
        1.615_858_368_580_409e2,
        -5.447_609_879_822_406e1,
    ];
    const TAIL_NUMERATOR: [f64; 6] = [
        2.938_163_982_698_783,
        4.374_664_141_464_968,
        -2.549_732_539_343_734,
        -2.400_758_277_161_838,
        -3.223_964_580_411_365e-1,
        -7.784_894_002_430_293e-3,
    ];
    const TAIL_DENOMINATOR: [f64; 5] = [
        1.0,
        3.754_408_661_907_416,
        2.445_134_137_142_996,
        3.224_671_290_700_398e-1,
        7.784_695_709_041_462e-3,
    ];
    /// Probability, in either tail, below which the approximation for tails is used.
    const TAIL: f64 = 0.024_25;
    let probability = probability.clamp(1e-300, 1.0 - 1e-16);
    let in_tail = |p: f64| {
        let root = (-2.0 * p.ln()).sqrt();
        -polynomial(&TAIL_NUMERATOR, root) / polynomial(&TAIL_DENOMINATOR, root)
    };
    if probability < TAIL {
        in_tail(probability)
    } else if probability > 1.0 - TAIL {
        -in_tail(1.0 - probability)
    } else {
        let centred = 0.5 - probability;
        let square = centred * centred;
        centred * polynomial(&NUMERATOR, square) / polynomial(&DENOMINATOR, square)
    }
}

/// Returns the value at `x` of the polynomial with these coefficients, the constant first (Horner's rule).
fn polynomial(coefficients: &[f64], x: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, coefficient| sum * x + coefficient)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values: tables of Abramowitz and Stegun, 26.1 and 26.2.
    #[test]
    fn tails_and_quantiles_match_published_tables() {
        for (z, p) in
            [(0.0, 0.5), (1.0, 0.158_655_254), (1.959_964, 0.025), (3.0, 1.349_898e-3), (6.0, 9.8659e-10)]
        {
            assert!((tail(z) / p - 1.0).abs() < 1e-5, "{z}: {}", tail(z));
            assert!((tail(-z) - (1.0 - p)).abs() < 1e-6, "{z}: {}", tail(-z));
            assert!(
                (quantile(p) - z).abs() < 1e-5 && (quantile(1.0 - p) + z).abs() < 1e-5,
                "{p}: {}",
                quantile(p)
            );
        }
    }

    #[test]
    fn quantiles_without_a_probability_are_finite() {
        assert!(quantile(0.0) > 30.0 && quantile(1.0) < -8.0);
    }
}
