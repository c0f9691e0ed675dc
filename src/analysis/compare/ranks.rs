//! Mann-Whitney test of two histograms.

/// Result of the test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranks {
    /// Probability that a value of the second sample is larger than one of the first, plus half
    /// the probability that they are in the same bucket. 0.5: neither is larger.
    pub superiority: f64,
    /// Two-sided p value, by the normal approximation with correction for ties. Assumes
    /// independent values.
    pub p: f64,
}

/// Probability that a value of `after` is larger than one of `before`, see [`Ranks::superiority`].
/// Both have the counts of the same buckets. `None` if a sample is empty.
pub fn superiority(before: &[f64], after: &[f64]) -> Option<f64> {
    let (mut below, mut wins, mut n2) = (0.0, 0.0, 0.0);
    for (&b, &a) in before.iter().zip(after) {
        wins += a * (below + b / 2.0);
        below += b;
        n2 += a;
    }
    (below > 0.0 && n2 > 0.0).then(|| wins / (below * n2))
}

/// Tests whether the values of one sample tend to be larger. `None` if a sample is empty.
pub fn test(before: &[f64], after: &[f64]) -> Option<Ranks> {
    let superiority = superiority(before, after)?;
    let (n1, n2): (f64, f64) = (before.iter().sum(), after.iter().sum());
    let n = n1 + n2;
    let ties: f64 = before.iter().zip(after).map(|(b, a)| b + a).map(|t| t * t * t - t).sum();
    let variance = n1 * n2 / 12.0 * (n + 1.0 - ties / (n * (n - 1.0)).max(1.0));
    let deviation = (superiority - 0.5) * n1 * n2;
    let p = if variance > 0.0 {
        super::significance::normal_p(deviation / variance.sqrt())
    } else {
        1.0
    };
    Some(Ranks { superiority, p })
}

#[cfg(test)]
mod tests {
    use super::{superiority, test};
    use proptest::prelude::*;

    #[test]
    fn p_values_agree_with_scipy() {
        // scipy.stats.mannwhitneyu(after, before, method="asymptotic", use_continuity=False), each
        // bucket's number repeated
        for (before, after, superiority, p) in [
            (
                [3.0, 5.0, 9.0, 4.0, 1.0, 0.0],
                [1.0, 2.0, 6.0, 8.0, 5.0, 2.0],
                0.740_530_303,
                0.004_000_430,
            ),
            (
                [300.0, 500.0, 900.0, 400.0, 100.0, 20.0],
                [310.0, 480.0, 930.0, 410.0, 120.0, 25.0],
                0.507_920_008,
                0.336_054_241,
            ),
        ] {
            let found = test(&before, &after).unwrap();
            assert!((found.superiority - superiority).abs() < 1e-8, "{found:?}");
            assert!((found.p - p).abs() < 1e-7, "{found:?}");
        }
    }

    proptest! {
        #[test]
        fn superiority_is_the_share_of_pairs(before in prop::collection::vec(0u8..5, 6), after in prop::collection::vec(0u8..5, 6)) {
            let float = |counts: &[u8]| -> Vec<f64> { counts.iter().map(|&n| f64::from(n)).collect() };
            let (b, a) = (float(&before), float(&after));
            let mut wins = 0.0;
            for (i, x) in b.iter().enumerate() {
                for (j, y) in a.iter().enumerate() {
                    wins += x * y * match j.cmp(&i) {
                        std::cmp::Ordering::Greater => 1.0,
                        std::cmp::Ordering::Equal => 0.5,
                        std::cmp::Ordering::Less => 0.0,
                    };
                }
            }
            let pairs = b.iter().sum::<f64>() * a.iter().sum::<f64>();
            match superiority(&b, &a) {
                None => prop_assert_eq!(pairs, 0.0),
                Some(found) => {
                    prop_assert!((found - wins / pairs).abs() < 1e-12);
                    let (one, two) = (test(&b, &a).unwrap(), test(&a, &b).unwrap());
                    prop_assert!((one.p - two.p).abs() < 1e-9 && (0.0..=1.0).contains(&one.p));
                }
            }
        }
    }
}
