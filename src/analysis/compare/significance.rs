//! p values of normal and Student's t statistics, and control of the false discovery rate.

/// Two-sided 95 % quantile of the normal distribution.
pub const Z95: f64 = 1.959_963_985;

/// Two-sided p value of a standard normal `z`.
pub fn normal_p(z: f64) -> f64 {
    libm::erfc(z.abs() / std::f64::consts::SQRT_2)
}

/// Two-sided p value of `t` with `df` degrees of freedom, by Wallace's approximation (Annals of
/// Mathematical Statistics 30, 1959, page 1124).
pub fn student_p(t: f64, df: f64) -> f64 {
    let df = df.max(1.0);
    let z = (df * (t * t / df).ln_1p()).sqrt() * (8.0 * df + 1.0) / (8.0 * df + 3.0);
    normal_p(z)
}

/// Two-sided 95 % quantile of Student's t with `df` degrees of freedom: the inverse of
/// [`student_p`].
pub fn student_95(df: f64) -> f64 {
    let df = df.max(1.0);
    let z = Z95 * (8.0 * df + 3.0) / (8.0 * df + 1.0);
    (df * (z * z / df).exp_m1()).sqrt()
}

/// Adjusted p values by Benjamini and Hochberg (1995), in the order of `p`. Differences whose
/// adjusted value is at most 0.05 include at most 5 % false ones in the long run.
pub fn adjusted(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[b].total_cmp(&p[a]));
    let mut least = 1.0f64;
    let mut adjusted = vec![1.0; p.len()];
    for (larger, &i) in order.iter().enumerate() {
        let rank = (p.len() - larger) as f64;
        least = least.min(p[i] * p.len() as f64 / rank);
        adjusted[i] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::{adjusted, normal_p, student_95, student_p};
    use proptest::prelude::*;

    #[test]
    fn p_values_agree_with_scipy() {
        // scipy.stats.norm.sf(z) * 2
        for (z, p) in [(0.0, 1.0), (1.0, 0.317_310_508), (1.959_964, 0.05), (4.0, 6.334_248e-5)] {
            assert!((normal_p(z) - p).abs() < 1e-6, "{z}");
        }
        // scipy.stats.t.ppf(0.975, df)
        for (df, t) in [(5.0, 2.570_582), (8.0, 2.306_004), (20.0, 2.085_963), (100.0, 1.983_972)] {
            assert!((student_95(df) / t - 1.0).abs() < 0.01, "{df}");
            assert!((student_p(t, df) - 0.05).abs() < 0.001, "{df}");
        }
    }

    #[test]
    fn adjusted_values_agree_with_scipy() {
        // scipy.stats.false_discovery_control([0.01, 0.02, 0.03, 0.5, 0.005])
        let found = adjusted(&[0.01, 0.02, 0.03, 0.5, 0.005]);
        let expected = [0.025, 0.033_333_333, 0.0375, 0.5, 0.025];
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-8, "{found} {expected}");
        }
        assert!(adjusted(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn adjusting_keeps_the_order(p in prop::collection::vec(0.0f64..=1.0, 1..40)) {
            let q = adjusted(&p);
            for i in 0..p.len() {
                prop_assert!(q[i] >= p[i] - 1e-12 && q[i] <= 1.0);
                for j in 0..p.len() {
                    prop_assert!(p[i] > p[j] || q[i] <= q[j]);
                }
            }
        }
    }
}
