//! Writes the headline: first the symptom, then the cause.

use std::time::Duration;

use super::spread::LoadSpread;
use super::symptom::{MIN_SATURATED, MemberFigures, Symptom, SymptomCause};
use super::uneven::{UnevenOrigins, uneven};
use super::words::{and_more, from_task, subject};
use super::work::{hint, mostly, work, write_cost};
use super::{ENOUGH_REQUESTS, Hotspot, HotspotKind, units};
use crate::analysis::snapshot::{ArraySnapshot, MemberSnapshot};

/// Minimum skew at which the busiest member is named.
const MIN_NAMED_SKEW: f64 = 1.5;
/// Minimum share of the array's load that an even layout would move, for unevenness to be the cause
/// of saturation.
const MIN_EXCESS: f64 = 0.05;

/// Input of the headline.
pub struct HeadlineInput<'a> {
    pub array: &'a ArraySnapshot,
    pub present: Vec<&'a MemberSnapshot>,
    /// Indices in `present` of members whose requests are not traced.
    pub untraced: Vec<usize>,
    pub total: LoadSpread,
    /// True if the members completed any IO.
    pub anything: bool,
    pub over: Duration,
}

/// Describes `symptom` and its cause. Without a symptom, describes uneven origins.
pub fn write(
    evidence: &HeadlineInput<'_>,
    figures: &[MemberFigures],
    symptom: &Symptom,
) -> Hotspot {
    match symptom {
        Symptom::None if !evidence.untraced.is_empty() => evidence.untraced_members(figures),
        Symptom::None if !evidence.anything => {
            let over = units::seconds(evidence.over);
            evidence.summary(
                HotspotKind::Idle,
                format!("idle: no IO on the members in the last {over}"),
            )
        }
        Symptom::None => evidence.without_symptom(figures),
        Symptom::Stalled { members, stall } => {
            let names = evidence.names(members);
            let requests = format!(
                "{} request{} in flight",
                stall.in_flight,
                if stall.in_flight == 1 { "" } else { "s" }
            );
            let lasted = units::seconds_about(stall.lasted);
            let text = if stall.is_over {
                format!("{} completed nothing for {lasted}, with {requests}", and_more(&names))
            } else {
                let lead = subject(&names, "completes", "complete");
                format!("{lead} nothing: {requests}, none completed in {lasted}")
            };
            evidence.on(HotspotKind::Stalled, members, text)
        }
        Symptom::Saturated { members, cause, least, others } => {
            let lead = format!(
                "{} busy {}, the others {}",
                subject(&evidence.names(members), "is", "are"),
                of_the_time(*least, members.len()),
                units::percent(*others),
            );
            evidence.add_cause(evidence.on(kind(*cause), members, lead), members, *cause)
        }
        Symptom::Full { members, least } => evidence.full(members, *least),
        Symptom::Waiting { members, wait_us, device_us } => {
            let these = evidence.members(members);
            let works = members.iter().filter_map(|&i| figures[i].device_us);
            let works = works.fold(0.0, f64::max) / evidence.over.as_micros().max(1) as f64;
            evidence.on(
                HotspotKind::Queued,
                members,
                format!(
                    "requests to {} take {} (mean), of which they wait {} before they are issued: \
                     held back by the I/O scheduler or the host adapter, not by the disk, which \
                     works at most {} of the time; {}",
                    and_more(&evidence.names(members)),
                    units::latency(Some((wait_us + device_us) as u64)),
                    units::latency(Some(*wait_us as u64)),
                    units::percent(works),
                    work(evidence.array, &these, evidence.over),
                ),
            )
        }
    }
}

/// Adds the utilisation of the members to the headline about a cgroup's limit.
pub fn limited(
    evidence: &HeadlineInput<'_>,
    figures: &[MemberFigures],
    mut headline: String,
) -> Hotspot {
    let known = figures.iter().filter_map(|f| f.utilisation);
    if let Some(most) = known.reduce(f64::max) {
        let most = units::percent(most);
        headline += &if figures.len() == 1 {
            format!("; the disk is busy {most} of the time")
        } else {
            format!("; no member is busy more than {most} of the time")
        };
    }
    evidence.summary(HotspotKind::Queued, headline)
}

/// `98 % of the time or more`: lower bound for each of `count` members.
fn of_the_time(least: f64, count: usize) -> String {
    let more = if count > 1 && least < 1.0 { " or more" } else { "" };
    format!("{} of the time{more}", units::percent(least))
}

/// Kind of a hot spot of busy members.
fn kind(cause: SymptomCause) -> HotspotKind {
    match cause {
        SymptomCause::Longer(_) => HotspotKind::Slow,
        _ => HotspotKind::Saturated,
    }
}

impl HeadlineInput<'_> {
    fn members(&self, members: &[usize]) -> Vec<&MemberSnapshot> {
        members.iter().map(|&i| self.present[i]).collect()
    }

    fn names(&self, members: &[usize]) -> Vec<String> {
        members.iter().map(|&i| self.present[i].name.clone()).collect()
    }

    fn summary(&self, kind: HotspotKind, headline: String) -> Hotspot {
        Hotspot {
            kind,
            severity: kind.severity(),
            origins: Vec::new(),
            op: None,
            members: Vec::new(),
            share: 0.0,
            skew: self.total.skew(),
            over: self.over,
            headline,
        }
    }

    fn on(&self, kind: HotspotKind, members: &[usize], headline: String) -> Hotspot {
        Hotspot {
            members: self.names(members),
            share: self.total.share(members),
            ..self.summary(kind, headline)
        }
    }

    fn uneven(&self, on: Option<&[usize]>) -> Option<UnevenOrigins> {
        let chunk = self.array.info.chunk_bytes;
        uneven(&self.present, &self.total, chunk, on)
    }

    fn add_cause(&self, mut hotspot: Hotspot, members: &[usize], cause: SymptomCause) -> Hotspot {
        let it = if members.len() == 1 { "it" } else { "they" };
        let uneven = self.uneven(Some(members)).filter(|u| u.excess >= MIN_EXCESS);
        hotspot.headline += &match (cause, uneven) {
            (SymptomCause::MoreWork(_), Some(uneven)) => {
                let carriers = if uneven.carriers == members {
                    let carry = if members.len() == 1 { "carries" } else { "carry" };
                    format!("{it} {carry}")
                } else {
                    subject(&self.names(&uneven.carriers), "carries", "carry")
                };
                let whose = from_task(self.array, |origin, op| {
                    op == uneven.op && uneven.origins.contains(&origin)
                });
                let text = format!(
                    ": {carriers} {} the {}, {:.1}x the mean{whose}{}",
                    uneven.part(),
                    uneven.what(),
                    uneven.skew,
                    hint(self.array, &uneven, &self.names(&uneven.carriers))
                );
                (hotspot.share, hotspot.skew) = (uneven.share, uneven.skew);
                (hotspot.origins, hotspot.op) = (uneven.origins, Some(uneven.op));
                text
            }
            (SymptomCause::MoreWork(times), None) => {
                let these = self.members(members);
                let have = if members.len() == 1 { "has" } else { "have" };
                let times = if times.is_finite() {
                    format!("{it} {have} {} the work of each other", units::factor(Some(times)))
                } else {
                    format!("{it} {have} all the work")
                };
                format!(": {times}, {}", work(self.array, &these, self.over))
            }
            (SymptomCause::Longer(times), _) => format!(
                ", with no more work: a request takes {} as long there",
                units::factor(Some(times))
            ),
            (SymptomCause::Elsewhere, _) if members.iter().any(|i| self.untraced.contains(i)) => {
                format!("; {}", self.not_traced())
            }
            (SymptomCause::Elsewhere, _) => {
                ", with no more of the array's work: look for other load".to_owned()
            }
        };
        hotspot
    }

    /// `both members are`, `all 12 members are`, `1 of 4 members is missing, the other 3 are`.
    fn everyone(&self, verb: &str) -> String {
        let (there, disks) = (self.present.len(), self.array.info.disks as usize);
        match disks.saturating_sub(there) {
            0 if there == 2 => format!("both members {verb}"),
            0 => format!("all {there} members {verb}"),
            1 => format!("1 of {disks} members is missing, the other {there} {verb}"),
            gone => format!("{gone} of {disks} members are missing, the other {there} {verb}"),
        }
    }

    /// Describes an array on which every member with known utilisation is busy all the time.
    fn full(&self, members: &[usize], least: f64) -> Hotspot {
        let (names, least) = (self.names(members), of_the_time(least, members.len()));
        let work = if self.untraced.is_empty() {
            work(self.array, &self.present, self.over)
        } else {
            self.not_traced()
        };
        let unknown = self.present.len() - members.len();
        let lead = if self.present.len() == 1 {
            format!("{} busy {least}, {work}", subject(&names, "is", "are"))
        } else if unknown > 0 {
            format!(
                "{} busy {least}; {unknown} member{} no utilisation figure; {work}",
                subject(&names, "is", "are"),
                if unknown == 1 { " has" } else { "s have" },
            )
        } else if self.total.skew() < MIN_NAMED_SKEW {
            format!("the array is saturated: {} busy {least}, evenly; {work}", self.everyone("are"))
        } else {
            format!(
                "{} busy {least}, the busiest with {:.1}x the mean load; {work}",
                self.everyone("are"),
                self.total.skew()
            )
        };
        let mut hotspot = self.on(HotspotKind::Saturated, members, lead);
        hotspot.headline += &write_cost(self.array, self.over, &self.total);
        hotspot
    }

    /// `dm-1 completed 5537 requests that are not traced`.
    fn not_traced(&self) -> String {
        let disks = self.untraced.iter().filter_map(|&i| self.present[i].disk);
        let requests: u64 = disks.map(|d| d.requests).sum();
        let names = and_more(&self.names(&self.untraced));
        format!("{names} completed {requests} requests that are not traced")
    }

    /// Describes an array without a symptom whose load is known in part only: how even it is cannot
    /// be known.
    fn untraced_members(&self, figures: &[MemberFigures]) -> Hotspot {
        // In a recording, utilisation is computed from the traced requests.
        let known = figures.iter().any(|f| f.utilisation > Some(0.0));
        let calm = if known { format!("{}; ", self.busiest(figures)) } else { String::new() };
        self.summary(HotspotKind::Even, format!("{calm}{}", self.not_traced()))
    }

    /// Describes the load of an array without a symptom.
    fn without_symptom(&self, figures: &[MemberFigures]) -> Hotspot {
        let calm = self.busiest(figures);
        if let Some(uneven) = self.uneven(None) {
            let names = self.names(&uneven.carriers);
            let headline = format!(
                "{calm}; {}: {} {} them, {:.1}x the mean{}",
                uneven.what(),
                subject(&names, "carries", "carry"),
                if uneven.share >= 1.0 { "all of".to_owned() } else { uneven.part() },
                uneven.skew,
                hint(self.array, &uneven, &names)
            );
            return Hotspot {
                members: names,
                share: uneven.share,
                skew: uneven.skew,
                op: Some(uneven.op),
                origins: uneven.origins,
                ..self.summary(HotspotKind::Uneven, headline)
            };
        }
        let (requests, skew) = (self.total.requests(), self.total.skew());
        let load = self.total.load();
        let most = (0..load.len()).max_by(|&a, &b| load[a].total_cmp(&load[b])).unwrap_or(0);
        let work = if self.present.len() == 1 {
            mostly(&self.present, self.over)
        } else if requests < ENOUGH_REQUESTS {
            format!("{requests:.0} requests are too few to judge how even the load is")
        } else if skew < MIN_NAMED_SKEW {
            format!("the load is even, {skew:.1}x the mean on the busiest")
        } else {
            format!(
                "no origin is uneven, but {} has {skew:.1}x the mean load, {}",
                self.present[most].name,
                mostly(&self.present[most..=most], self.over),
            )
        };
        let mut hotspot = self.summary(HotspotKind::Even, format!("{calm}; {work}"));
        hotspot.headline += &write_cost(self.array, self.over, &self.total);
        hotspot
    }

    /// `no member is saturated: the busiest, loop9, is busy 11 % of the time`, if utilisation is
    /// known.
    fn busiest(&self, figures: &[MemberFigures]) -> String {
        let known = || figures.iter().enumerate().filter_map(|(i, f)| Some((i, f.utilisation?)));
        let most = known().max_by(|a, b| a.1.total_cmp(&b.1));
        let Some((busiest, most)) = most else {
            return "utilisation is not known".to_owned();
        };
        let (name, share) = (&self.present[busiest].name, units::percent(most));
        let unknown: Vec<usize> =
            (0..figures.len()).filter(|&i| figures[i].utilisation.is_none()).collect();
        let unknown = if unknown.is_empty() {
            String::new()
        } else {
            format!(" (not known for {})", and_more(&self.names(&unknown)))
        };
        match figures[busiest].mean_us {
            // Busy, but requests are too short for the disk to be saturated.
            Some(us) if most >= MIN_SATURATED => format!(
                "{name} is busy {share} of the time, but a request takes {} (mean): it can serve \
                 more{unknown}",
                units::latency(Some(us as u64))
            ),
            _ if self.present.len() == 1 => {
                format!("not saturated: busy {share} of the time")
            }
            _ => format!(
                "no member is saturated: the busiest, {name}, is busy {share} of the time{unknown}"
            ),
        }
    }
}
