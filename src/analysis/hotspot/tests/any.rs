//! Properties of the headline for arbitrary figures.

use std::time::Duration;

use proptest::prelude::*;

use super::SECOND;
use super::{HotspotKind, find};
use crate::analysis::fixture::{array, cell, member};
use crate::analysis::recent::{DiskInterval, Stall};
use crate::analysis::snapshot::{Cell, DiskUse};
use crate::origin::{Op, Origin};

fn any_cell() -> impl Strategy<Value = Cell> {
    let big = prop_oneof![0u64..100, 0u64..100_000, Just(u64::MAX)];
    (0..Origin::ALL.len(), 0..Op::ALL.len(), big.clone(), big, 0u64..1 << 24).prop_map(
        |(origin, op, requests, bytes, us)| {
            let mut cell = cell(Origin::ALL[origin], Op::ALL[op], requests.min(50), 0, us);
            (cell.requests, cell.bytes) = (requests, bytes);
            cell
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn figures_are_in_range(
        members in prop::collection::vec(
            (
                prop::collection::vec(any_cell(), 0..6),
                any::<bool>(),
                prop_oneof![any::<f64>(), 0.0..=1.0],
                prop::collection::vec(prop::option::of(any::<u32>()), 0..12),
            ),
            0..14,
        ),
        secs in 0u64..20,
    ) {
        let mut array =
            array(members.iter().enumerate().map(|(i, m)| member(i, m.0.clone())).collect());
        for (member, (_, spare, utilisation, queue)) in array.members.iter_mut().zip(&members) {
            member.slot = member.slot.filter(|_| !spare);
            member.disk = Some(
                DiskUse { in_flight: 3, utilisation: *utilisation, ..DiskUse::default() },
            );
            let recent = |&in_flight: &Option<u32>| DiskInterval {
                interval: SECOND,
                utilisation: in_flight.map(|n| f64::from(n) / f64::from(u32::MAX)),
                in_flight,
            };
            let lasted = Duration::from_secs_f64(utilisation.abs().clamp(0.0, 1e9));
            member.stall = spare.then_some(Stall { lasted, in_flight: u32::MAX, is_over: *spare });
            member.recent = queue.iter().map(recent).collect();
        }
        let hotspot = find(&array, Duration::from_secs(secs));
        prop_assert!((0.0..=1.0).contains(&hotspot.share), "{hotspot:?}");
        prop_assert!(hotspot.skew >= 1.0, "{hotspot:?}");
        prop_assert!(!hotspot.headline.is_empty());
        for name in &hotspot.members {
            prop_assert!(array.members.iter().any(|m| &m.name == name && m.is_present()));
        }
        if hotspot.kind == HotspotKind::Uneven {
            prop_assert!(2 * hotspot.members.len() <= array.members.len());
        }
        for (member, (_, _, utilisation, _)) in array.members.iter().zip(&members) {
            let claimed = hotspot.kind == HotspotKind::Saturated
                && hotspot.members.contains(&member.name);
            prop_assert!(!claimed || *utilisation >= 0.8, "{hotspot:?}");
        }
    }
}
