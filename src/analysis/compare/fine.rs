//! Log-linear histograms with 16 buckets per power of two: a bucket is at most 6.25 % wide. They
//! are four times as fine as [`Hist`](crate::analysis::hist::Hist), so that a change of a quantile
//! by a tenth is not lost between two buckets.

/// Number of buckets: 32 bits of microseconds.
pub const BUCKETS: usize = 464;

/// Nonzero buckets of a histogram in ascending order, each with its count.
pub type Sparse = Vec<(u16, u32)>;

/// Bucket of `us` microseconds. 0..16 µs have a bucket each.
pub const fn bucket(us: u32) -> usize {
    if us < 16 {
        return us as usize;
    }
    let log = 31 - us.leading_zeros() as usize;
    (log - 3) * 16 + ((us >> (log - 4)) & 15) as usize
}

/// Lower edge and width of `bucket`, µs.
pub fn edge(bucket: usize) -> (f64, f64) {
    if bucket < 16 {
        return (bucket as f64, 1.0);
    }
    let scale = (bucket / 16 - 1).min(32) as i32;
    let width = 2f64.powi(scale);
    ((16 + bucket % 16) as f64 * width, width)
}

/// Merges `more` into `sum`.
pub fn merge(sum: &mut Sparse, more: &Sparse) {
    sum.extend_from_slice(more);
    // Two sorted lists, which a stable sort merges.
    sum.sort_by_key(|(bucket, _)| *bucket);
    sum.dedup_by(|next, last| {
        let is_same = next.0 == last.0;
        if is_same {
            last.1 = last.1.saturating_add(next.1);
        }
        is_same
    });
}

/// The `q` quantile in µs, interpolated within its bucket. `counts` has the count of each of
/// `buckets`; `None` without values.
pub fn quantile(buckets: &[u16], counts: &[f64], q: f64) -> Option<f64> {
    let total: f64 = counts.iter().sum();
    if total <= 0.0 {
        return None;
    }
    let rank = q * total;
    let mut seen = 0.0;
    let mut last = None;
    for (&bucket, &count) in buckets.iter().zip(counts) {
        if count <= 0.0 {
            continue;
        }
        let (lower, width) = edge(bucket as usize);
        if seen + count >= rank {
            return Some(lower + width * ((rank - seen) / count).clamp(0.0, 1.0));
        }
        seen += count;
        last = Some(lower + width);
    }
    last
}

#[cfg(test)]
mod tests {
    use super::{BUCKETS, Sparse, bucket, edge, merge, quantile};
    use proptest::prelude::*;

    #[test]
    fn buckets_adjoin() {
        assert_eq!(bucket(u32::MAX), BUCKETS - 1);
        for b in 0..BUCKETS - 1 {
            let (lower, width) = edge(b);
            assert_eq!(bucket(lower as u32), b);
            assert_eq!(lower + width, edge(b + 1).0, "{b}");
            assert!(b < 16 || width <= lower / 16.0);
        }
    }

    fn sparse(values: &[u32]) -> Sparse {
        values.iter().fold(Sparse::new(), |mut sum, &us| {
            merge(&mut sum, &vec![(bucket(us) as u16, 1)]);
            sum
        })
    }

    proptest! {
        #[test]
        fn quantiles_are_within_a_bucket(mut values in prop::collection::vec(0u32..1 << 26, 1..200), q in 0.01f64..=1.0) {
            let all = sparse(&values);
            prop_assert!(all.windows(2).all(|w| w[0].0 < w[1].0));
            let (buckets, counts): (Vec<u16>, Vec<f64>) = all.iter().map(|&(b, n)| (b, f64::from(n))).unzip();
            prop_assert_eq!(counts.iter().sum::<f64>() as usize, values.len());
            values.sort_unstable();
            let rank = ((q * values.len() as f64).ceil() as usize).clamp(1, values.len());
            let exact = f64::from(values[rank - 1]);
            let found = quantile(&buckets, &counts, q).unwrap();
            prop_assert!((found - exact).abs() <= exact / 16.0 + 1.0, "{} {}", found, exact);
        }
    }
}
