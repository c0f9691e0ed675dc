//! Simulated recordings with known differences: rates of false alarms and of missed differences.

use super::estimate::{Design, Estimate, compare};
use super::fine::{Sparse, bucket};
use super::latency;
use super::latency::Latency;
use super::resample::{Numbers, Resamples, block_length};

fn uniform(numbers: &mut Numbers) -> f64 {
    ((numbers.draw() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

fn normal(numbers: &mut Numbers) -> f64 {
    let radius = (-2.0 * uniform(numbers).ln()).sqrt();
    radius * (std::f64::consts::TAU * uniform(numbers)).cos()
}

/// Deviations of standard deviation 1, each of which correlates with the one before by `memory`.
fn deviations(numbers: &mut Numbers, intervals: usize, memory: f64) -> Vec<f64> {
    let mut last = normal(numbers);
    let each = (0..intervals).map(|_| {
        last = memory * last + (1.0 - memory * memory).sqrt() * normal(numbers);
        last
    });
    each.collect()
}

fn with_design<T>(intervals: (usize, usize), run: impl FnOnce(Design<'_>) -> T) -> T {
    let resamples = [(intervals.0, 1), (intervals.1, 2)]
        .map(|(n, seed)| Resamples::new(n, block_length(n), seed).unwrap());
    let [before, after] = &resamples;
    run(Design { before, after })
}

/// A load with a standard deviation of 20 %, whose mean after is `times` that before.
fn loads(numbers: &mut Numbers, n: (usize, usize), memory: f64, times: f64) -> Estimate {
    let load = |numbers: &mut Numbers, n: usize, mean: f64| -> Vec<f64> {
        let each = deviations(numbers, n, memory).into_iter();
        each.map(|d| (mean * (1.0 + 0.2 * d)).max(0.0)).collect()
    };
    let (before, after) = (load(numbers, n.0, 100.0), load(numbers, n.1, 100.0 * times));
    let seconds = |n: usize| vec![1.0; n];
    with_design(n, |design| {
        let (before, after) = ([before, seconds(n.0)], [after, seconds(n.1)]);
        compare(Some(design), &before, &after, |s| s[0] / s[1])
    })
}

/// Share of `pairs` simulated pairs for which `is` holds.
fn share(pairs: u32, mut is: impl FnMut(&mut Numbers) -> bool) -> f64 {
    let mut numbers = Numbers(7);
    let found = (0..pairs).filter(|_| is(&mut numbers)).count();
    found as f64 / f64::from(pairs)
}

fn is_found(p: Option<f64>) -> bool {
    p.unwrap() < 0.05
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
        let alarms = share(400, |numbers| is_found(loads(numbers, n, memory, 1.0).p));
        assert!((least..=most).contains(&alarms), "{n:?} intervals, memory {memory}: {alarms}");
    }
}

#[test]
fn intervals_include_the_true_difference() {
    let missed = share(400, |numbers| {
        let (low, high) = loads(numbers, (60, 60), 0.5, 1.2).interval.unwrap();
        !(low..=high).contains(&20.0)
    });
    assert!((0.01..=0.09).contains(&missed), "{missed}");
}

#[test]
fn a_change_of_20_percent_is_found() {
    for (n, memory, least) in [((60, 60), 0.3, 0.8), ((120, 120), 0.5, 0.85)] {
        let found = share(150, |numbers| is_found(loads(numbers, n, memory, 1.2).p));
        assert!(found >= least, "{n:?} intervals, memory {memory}: {found}");
    }
}

/// Device times of 50 requests in each of 60 intervals. The level of an interval correlates with
/// the one before by 0.5.
fn latencies(numbers: &mut Numbers, times: f64) -> Latency {
    let n = 60;
    let intervals = |numbers: &mut Numbers, us: f64| -> Vec<Sparse> {
        let levels = deviations(numbers, n, 0.5);
        let each = levels.into_iter().map(|level| {
            let mut counts = std::collections::BTreeMap::new();
            for _ in 0..50 {
                let us = us * (0.1 * level + 0.4 * normal(numbers)).exp();
                *counts.entry(bucket(us as u32) as u16).or_default() += 1;
            }
            counts.into_iter().collect()
        });
        each.collect()
    };
    let (before, after) = (intervals(numbers, 5000.0), intervals(numbers, 5000.0 * times));
    with_design((n, n), |design| latency::compare(Some(design), &before, &after).unwrap())
}

#[test]
fn equal_latencies_give_few_false_alarms_and_a_change_of_20_percent_is_found() {
    let mut p99 = 0;
    let p50 = share(60, |numbers| {
        let found = latencies(numbers, 1.0);
        p99 += u32::from(is_found(found.p99.unwrap().p));
        is_found(found.p50.p)
    });
    assert!(p50 <= 0.12 && p99 <= 8, "{p50} {p99}");
    let mut p99 = 0;
    let p50 = share(12, |numbers| {
        let found = latencies(numbers, 1.2);
        p99 += u32::from(is_found(found.p99.unwrap().p));
        is_found(found.p50.p)
    });
    assert!(p50 > 0.9 && p99 >= 9, "{p50} {p99}");
}
