//! Simulated recordings with known differences: rates of false alarms and of missed differences.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::bootstrap::{
    Estimate, RESAMPLES, Resamples, Scale, SplitMix64, adjusted, compare, student_95, student_p,
};
use super::differences::quantile;
use super::pairs::{PairReason, arrays};
use crate::analysis::hist::{Hist, bucket, upper_edge};
use crate::analysis::snapshot::ArrayInfo;

proptest! {
    #[test]
    fn each_resample_has_all_its_intervals(n in 10usize..80, seed in any::<u64>()) {
        let resamples = Resamples::new(n, seed).unwrap();
        let sums = resamples.figures(&[vec![1.0; n]], |sums| sums[0]);
        prop_assert_eq!(sums.len(), RESAMPLES);
        prop_assert!(sums.iter().all(|&sum| sum == n as f64));
        // A figure gets the sums of all series over the same resample.
        let rows: Vec<u32> = (0..2 * n as u32).map(|v| v * v % 97).collect();
        let column = |c: usize| -> Vec<f64> { rows.chunks(2).map(|r| f64::from(r[c])).collect() };
        let [first, second] = [0, 1].map(|c| resamples.figures(&[column(c)], |sums| sums[0]));
        let both = resamples.figures(&[column(0), column(1)], |sums| sums[0] + 1000.0 * sums[1]);
        let expected = first.into_iter().zip(second).map(|(a, b)| a + 1000.0 * b);
        prop_assert_eq!(both, expected.collect::<Vec<_>>());
    }

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

    #[test]
    fn quantiles_are_within_a_bucket(
        mut values in prop::collection::vec(0u64..1 << 26, 1..200),
        q in 0.01f64..=1.0,
    ) {
        let mut hist = Hist::default();
        values.iter().for_each(|&us| hist.record(us));
        let (buckets, counts): (BTreeSet<u8>, Vec<f64>) = (0u8..)
            .zip(hist.counts())
            .filter(|(_, n)| **n > 0)
            .map(|(bucket, &n)| (bucket, f64::from(n)))
            .unzip();
        values.sort_unstable();
        let rank = ((q * values.len() as f64).ceil() as usize).clamp(1, values.len());
        let exact = bucket(values[rank - 1]);
        let lower = exact.checked_sub(1).map_or(0, upper_edge) as f64;
        let found = quantile(&buckets, &counts, q);
        prop_assert!(lower <= found && found <= upper_edge(exact) as f64, "{} {}", found, exact);
    }
}

#[test]
fn too_few_intervals_are_not_resampled() {
    assert!(Resamples::new(0, 1).is_none());
    assert!(Resamples::new(9, 1).is_none());
    assert_eq!([10, 60, 128].map(|n| Resamples::new(n, 1).unwrap().block), [2, 8, 16]);
}

#[test]
fn p_values_agree_with_scipy() {
    // scipy.stats.t.ppf(0.975, df)
    for (df, t) in [(5.0, 2.570_582), (8.0, 2.306_004), (20.0, 2.085_963), (100.0, 1.983_972)] {
        assert!((student_95(df) / t - 1.0).abs() < 0.01, "{df}");
        assert!((student_p(t, df) - 0.05).abs() < 0.001, "{df}");
    }
    assert!((student_p(0.0, 8.0) - 1.0).abs() < 1e-9);
    // scipy.stats.false_discovery_control([0.01, 0.02, 0.03, 0.5, 0.005])
    let found = adjusted(&[0.01, 0.02, 0.03, 0.5, 0.005]);
    let expected = [0.025, 0.033_333_333, 0.0375, 0.5, 0.025];
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-8, "{found} {expected}");
    }
    assert!(adjusted(&[]).is_empty());
}

fn pair(before: &[&str], after: &[&str], asked: &[(&str, &str)]) -> Result<String, String> {
    let infos = [before, after].map(|names| {
        let info = |name: &&str| ArrayInfo {
            name: (*name).to_owned(),
            level: if name.starts_with("md") { "raid0" } else { "single" }.to_owned(),
            ..ArrayInfo::default()
        };
        names.iter().map(info).collect::<Vec<_>>()
    });
    let infos = infos.each_ref().map(|infos| infos.iter().collect::<Vec<_>>());
    let asked: Vec<_> = asked.iter().map(|(x, y)| ((*x).to_owned(), (*y).to_owned())).collect();
    let found = arrays([&infos[0], &infos[1]], &asked)?;
    let pairs = found.pairs.iter().map(|&([x, y], reason)| {
        let how = match reason {
            PairReason::Option => '!',
            PairReason::Name => '=',
            PairReason::OnlyOne => '~',
        };
        format!("{}{how}{}", before[x], after[y])
    });
    let only = found.left[0].iter().map(|&i| format!("-{}", before[i]));
    let more = found.left[1].iter().map(|&i| format!("+{}", after[i]));
    let all: Vec<String> = pairs.chain(only).chain(more).collect();
    Ok(all.join(" "))
}

#[test]
fn arrays_are_paired_by_name_or_if_only_one_is_left() {
    for (before, after, asked, expected) in [
        (&["md0", "sda"][..], &["md0", "sda"][..], &[][..], "md0=md0 sda=sda"),
        (&["md0", "sda"], &["md127", "sdb"], &[], "md0~md127 sda~sdb"),
        (&["md0", "md1"], &["md126", "md127"], &[], "-md0 -md1 +md126 +md127"),
        (&["md0", "md1"], &["md1"], &[], "md1=md1 -md0"),
        (&["sda"], &["md0"], &[], "-sda +md0"),
        (&["sda"], &["md0"], &[("sda", "md0")], "sda!md0"),
        (&["md0", "md1"], &["md0", "md1"], &[("md0", "md1")], "md1~md0 md0!md1"),
    ] {
        assert_eq!(pair(before, after, asked).as_deref(), Ok(expected));
    }
    let wrong = pair(&["md0", "md1"], &["md0"], &[("md3", "md0")]);
    assert_eq!(wrong.unwrap_err(), "--pair: BEFORE has no array md3; it has md0 and md1");
    let twice = pair(&["md0", "md1"], &["md0"], &[("md0", "md0"), ("md1", "md0")]);
    assert_eq!(twice.unwrap_err(), "--pair names md0 of AFTER twice");
}

fn uniform(random: &mut SplitMix64) -> f64 {
    ((random.draw() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

fn normal(random: &mut SplitMix64) -> f64 {
    let radius = (-2.0 * uniform(random).ln()).sqrt();
    radius * (std::f64::consts::TAU * uniform(random)).cos()
}

/// Deviations of standard deviation 1, each of which correlates with the one before by `memory`.
fn deviations(random: &mut SplitMix64, intervals: usize, memory: f64) -> Vec<f64> {
    let mut last = normal(random);
    let each = (0..intervals).map(|_| {
        last = memory * last + (1.0 - memory * memory).sqrt() * normal(random);
        last
    });
    each.collect()
}

fn estimate(series: [Vec<Vec<f64>>; 2], scale: Scale, figure: impl Fn(&[f64]) -> f64) -> Estimate {
    let seeded = [0, 1].map(|i| Resamples::new(series[i][0].len(), i as u64 + 1).unwrap());
    compare(Some([&seeded[0], &seeded[1]]), [&series[0], &series[1]], scale, figure)
}

/// A load with a standard deviation of 20 %, whose mean after is `times` that before.
fn loads(random: &mut SplitMix64, n: (usize, usize), memory: f64, times: f64) -> Estimate {
    let mut load = |n: usize, mean: f64| {
        let each = deviations(random, n, memory).into_iter();
        vec![each.map(|d| (mean * (1.0 + 0.2 * d)).max(0.0)).collect(), vec![1.0; n]]
    };
    let series = [load(n.0, 100.0), load(n.1, 100.0 * times)];
    estimate(series, Scale::Linear, |s| s[0] / s[1])
}

/// Share of `pairs` simulated pairs for which `is` holds.
fn share(pairs: u32, mut is: impl FnMut(&mut SplitMix64) -> bool) -> f64 {
    let mut random = SplitMix64(7);
    let found = (0..pairs).filter(|_| is(&mut random)).count();
    found as f64 / f64::from(pairs)
}

/// Also checks that the interval excludes 0 if and only if the p value says so.
fn is_found(estimate: Estimate) -> bool {
    let (low, high) = estimate.interval.unwrap();
    let is_found = estimate.p.unwrap() < 0.05;
    assert_eq!(is_found, low > 0.0 || high < 0.0, "{estimate:?}");
    is_found
}

#[test]
fn equal_loads_give_false_alarms_at_about_the_nominal_rate() {
    for (n, memory, least, most) in [
        ((60, 60), 0.0, 0.005, 0.07),
        ((60, 60), 0.3, 0.01, 0.09),
        ((60, 60), 0.5, 0.02, 0.09),
        ((120, 40), 0.5, 0.02, 0.09),
        ((10, 10), 0.3, 0.0, 0.06),
    ] {
        let alarms = share(400, |random| is_found(loads(random, n, memory, 1.0)));
        assert!((least..=most).contains(&alarms), "{n:?} intervals, memory {memory}: {alarms}");
    }
}

#[test]
fn intervals_include_the_true_difference() {
    let missed = share(400, |random| {
        let (low, high) = loads(random, (60, 60), 0.5, 1.2).interval.unwrap();
        !(low..=high).contains(&20.0)
    });
    assert!((0.01..=0.09).contains(&missed), "{missed}");
}

#[test]
fn a_change_of_20_percent_is_found() {
    for (n, memory, least) in [((60, 60), 0.3, 0.8), ((120, 120), 0.5, 0.85)] {
        let found = share(150, |random| is_found(loads(random, n, memory, 1.2)));
        assert!(found >= least, "{n:?} intervals, memory {memory}: {found}");
    }
}

/// Median and 99th percentile of the device times of 50 requests in each of 60 intervals. The level
/// of an interval correlates with the one before by 0.5.
fn latencies(random: &mut SplitMix64, times: f64) -> [Estimate; 2] {
    const INTERVALS: usize = 60;
    let tables = [5000.0, 5000.0 * times].map(|us| {
        let mut table: BTreeMap<u8, Vec<f64>> = BTreeMap::new();
        for (i, level) in deviations(random, INTERVALS, 0.5).into_iter().enumerate() {
            for _ in 0..50 {
                let us = us * (0.1 * level + 0.4 * normal(random)).exp();
                let series = table.entry(bucket(us as u64) as u8);
                series.or_insert_with(|| vec![0.0; INTERVALS])[i] += 1.0;
            }
        }
        table
    });
    let buckets: BTreeSet<u8> = tables.iter().flat_map(|table| table.keys().copied()).collect();
    let series = tables.map(|table| -> Vec<Vec<f64>> {
        let each = buckets.iter().map(|b| table.get(b).cloned());
        each.map(|series| series.unwrap_or_else(|| vec![0.0; INTERVALS])).collect()
    });
    [0.5, 0.99].map(|q| estimate(series.clone(), Scale::Log, |c| quantile(&buckets, c, q)))
}

#[test]
fn equal_latencies_give_few_false_alarms_and_a_change_of_20_percent_is_found() {
    let found = |pairs: u32, times: f64| {
        let mut p99 = 0;
        let p50 = share(pairs, |random| {
            let [median, high] = latencies(random, times);
            p99 += u32::from(is_found(high));
            is_found(median)
        });
        (p50, p99)
    };
    let (p50, p99) = found(60, 1.0);
    assert!(p50 <= 0.12 && p99 <= 8, "{p50} {p99}");
    let (p50, p99) = found(40, 1.2);
    assert!(p50 > 0.9 && p99 >= 28, "{p50} {p99}");
}
