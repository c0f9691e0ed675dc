//! Reasons based on the groups that a search considers.

use super::{AllocCase, LATE_CRITERIA, MIN_NOTICEABLE_COST, MIN_REASON_SHARE, MIN_SAMPLES, Scan};
use crate::advice::quote::path_of;
use crate::advice::quote::quote;
use crate::advice::remedy;
use crate::analysis::alloc::figures::{
    SEARCHES, allocator_cpus, criterion, has, has_groups, is_hooked, mean_goal, mean_groups,
    per_cent, reasons, total, whole, without,
};
use crate::analysis::alloc::{GroupRefusal, Reason};
use crate::analysis::units;

/// Mean number of groups per search from which on the search counts as a scan. A healthy search
/// considers few groups: 2 to 18 with lists, even if free space is fragmented.
const MIN_SCANNED_GROUPS: f64 = 64.0;
/// Minimum CPU time in the allocator, in CPUs, for a reason from samples alone.
const MIN_CPUS: f64 = 0.5;
/// Minimum CPU seconds per request for a reason from samples alone. A healthy request takes 2 to 50
/// µs.
const MIN_REQUEST_COST: f64 = 500e-6;
/// Value of mb_group_prealloc that [`remedy::ask_for_less`] sets.
const REDUCED_PREALLOC: u64 = 64;

impl AllocCase<'_> {
    /// Main clause of the sentence: `each allocation looks at 41,000 groups`
    fn looks(&self) -> Option<String> {
        let (c, all) = (&self.fs.counts, u64::from(self.fs.groups));
        let mean = mean_groups(self.snapshot, c)?;
        let n = whole(mean.round() as u64);
        if c.groups.count() == 0 && is_hooked(self.snapshot, c) {
            return Some(format!(
                "{} groups were looked at in {} and no search has ended",
                whole(c.looks()),
                units::seconds(self.snapshot.interval)
            ));
        }
        let each = self.each();
        Some(if all > 0 && mean > all as f64 {
            format!("{each} looks at all {} groups {:.1} times", whole(all), mean / all as f64)
        } else if all > 0 && mean >= all as f64 / 2.0 {
            format!("{each} looks at {n} of {} groups", whole(all))
        } else {
            format!("{each} looks at {n} groups")
        })
    }

    /// Share of the considered groups that were refused; `None` if not known.
    fn refused_share(&self) -> Option<f64> {
        let c = &self.fs.counts;
        let share = || c.refusals() as f64 / c.looks().max(1) as f64;
        is_hooked(self.snapshot, c).then(share)
    }

    /// Why groups are refused: `99.2 % of groups have no free extent of 2^9 blocks`, or the most
    /// common sampled reason if the free extents are not known.
    fn refusal_clause(&self) -> Option<String> {
        let goal = mean_goal(&self.fs.counts);
        let enough = total(self.fs.counts.reasons.iter()) >= MIN_SAMPLES;
        if let Some((GroupRefusal::Full, share)) = reasons(&self.fs.counts).first()
            && *share >= MIN_REASON_SHARE
            && enough
        {
            return Some(format!("{} of the groups refused are full", per_cent(*share)));
        }
        if let (Some(goal), Some(f)) = (goal, &self.fs.fragmentation) {
            let order = goal.ilog2() as usize;
            if let Some((share, known)) = without(f, order).filter(|w| w.0 >= MIN_REASON_SHARE) {
                let of = if known as f64 >= 0.95 * f64::from(self.fs.groups) {
                    "groups".to_owned()
                } else {
                    format!("the {} groups in memory", whole(known))
                };
                return Some(format!(
                    "{} of {of} have no free extent of 2^{order} blocks",
                    per_cent(share)
                ));
            }
        }
        let (first, share) = *reasons(&self.fs.counts).first()?;
        if !enough {
            return None;
        }
        let share = per_cent(share);
        let what = match first {
            GroupRefusal::Average => {
                let goal = goal.map(|goal| format!(", {} blocks on average", whole(goal)));
                return Some(format!(
                    "in {share} of the groups refused the average free extent is shorter than the \
                     goal{}",
                    goal.unwrap_or_default()
                ));
            }
            GroupRefusal::Other => return None,
            GroupRefusal::Order => "have no free extent of the order asked for",
            GroupRefusal::Full => "are full",
            GroupRefusal::Blocks => "have fewer free blocks than the goal",
            GroupRefusal::Corrupt => "have a corrupt bitmap",
            GroupRefusal::ForDirectories => "are kept for directories",
            GroupRefusal::NotLoaded => "have no buddy bitmap in memory",
        };
        Some(format!("{share} of the groups refused {what}"))
    }

    /// Method by which groups are found, as the end of the sentence.
    fn scan_clause(&self) -> String {
        let release = &self.kernel.release;
        match self.scan() {
            Scan::NoLists if release.is_empty() => {
                "linear scan, this kernel has no lists of groups by free space".to_owned()
            }
            Scan::NoLists => {
                format!("linear scan, kernel {release} has no lists of groups by free space")
            }
            Scan::Off => "linear scan, mb_optimize_scan is off for this mount".to_owned(),
            Scan::Unused => format!(
                "linear scan, kernel {release}, according to its version, does not use \
                 mb_optimize_scan for files with extents"
            ),
            Scan::Lists => "mb_optimize_scan is on".to_owned(),
            Scan::Unknown => "groups are scanned one by one".to_owned(),
        }
    }

    pub(super) fn going_through_groups(&self) -> Option<Reason> {
        let c = &self.fs.counts;
        if !has_groups(self.snapshot, c)
            || mean_groups(self.snapshot, c)? < MIN_SCANNED_GROUPS
            || self.refused_share().is_some_and(|share| share < MIN_REASON_SHARE)
            || !self.is_noticeable()
        {
            return None;
        }
        // Lists propose only suitable groups: thousands of refusals in the first criteria mean that
        // no lists are used.
        let names = self.snapshot.criteria.len().clamp(LATE_CRITERIA + 1, c.looked.len());
        let early = total(c.looked[..names - LATE_CRITERIA].iter());
        let linear = match self.scan() {
            Scan::NoLists | Scan::Off | Scan::Unused => true,
            Scan::Lists => false,
            Scan::Unknown => early as f64 >= MIN_REASON_SHARE * c.looks() as f64,
        };
        let mut sentence = self.looks()?;
        match (self.refusal_clause(), self.refused_share()) {
            (Some(why), _) => sentence.push_str(&format!(" because {why}")),
            (None, Some(share)) => {
                sentence.push_str(&format!(", of which {} are refused", per_cent(share)));
            }
            (None, None) => {}
        }
        sentence.push_str(&format!("; {}", self.scan_clause()));
        if linear {
            return Some(self.linear(sentence));
        }
        sentence.push_str(&self.late().unwrap_or_default());
        Some(self.fragmented(sentence))
    }

    /// `, but 62 % of searches reach CR_GOAL_LEN_SLOW or a later criterion, where groups are
    /// scanned one by one`
    fn late(&self) -> Option<String> {
        let c = &self.fs.counts;
        let names = &self.snapshot.criteria;
        let first = names.len().clamp(LATE_CRITERIA + 1, c.criteria.len()) - LATE_CRITERIA;
        let late = total(c.criteria[first..].iter());
        let share = late as f64 / total(c.criteria.iter()).max(1) as f64;
        (share >= MIN_NOTICEABLE_COST && has(self.snapshot, SEARCHES, c.searches > 0)).then(|| {
            format!(
                ", but {} of searches reach {} or a later criterion, where groups are scanned one \
                 by one",
                per_cent(share),
                criterion(names, first)
            )
        })
    }

    /// Command that reduces mb_group_prealloc, and its risk; as an error, the reason why it would
    /// not help.
    fn ask_for_less(&self) -> Result<(String, String), String> {
        let (c, name) = (&self.fs.counts, quote(&self.fs.name));
        let no = "a smaller mb_group_prealloc would not help";
        if c.locality.saturating_mul(2) < c.searches || c.searches == 0 {
            let files = match self.fs.stream_req {
                Some(blocks) => format!("files larger than {blocks} blocks (mb_stream_req)"),
                None => "files larger than mb_stream_req".to_owned(),
            };
            return Err(format!("{no}: most searches are for {files}"));
        }
        // Full groups have no shorter runs either.
        if let Some((GroupRefusal::Full, share)) = reasons(c).first()
            && *share >= MIN_REASON_SHARE
        {
            return Err(format!("{no}: most groups refused are full"));
        }
        match self.fs.group_prealloc {
            Some(now) if now <= REDUCED_PREALLOC => Err(format!("{no}: it is already {now}")),
            Some(now) => Ok((
                remedy::ask_for_less(&name),
                remedy::ASK_FOR_LESS_RISK.replace(
                    "the old value, 512 without a stripe",
                    &format!("echo {now} > the same file"),
                ),
            )),
            None => Ok((remedy::ask_for_less(&name), remedy::ASK_FOR_LESS_RISK.to_owned())),
        }
    }

    fn linear(&self, sentence: String) -> Reason {
        let mut commands = Vec::new();
        let mut risks = Vec::new();
        let less = self.ask_for_less();
        if let Ok((_, risk)) = &less {
            risks.push(risk.clone());
        }
        if self.scan() == Scan::Off {
            commands.extend(remedy::lists_on(&self.mount(), &path_of(&self.fs.name)));
            risks.push(format!("{}. {}", remedy::LISTS_ON_RISK, remedy::OTHER_OPTIONS));
        }
        match less {
            Ok((command, _)) => commands.push(command),
            Err(why) => risks.push(why),
        }
        risks.push(match commands.len() {
            0 => "Make free space: removing files helps at once".to_owned(),
            _ => format!("Not when {}", remedy::LINEAR_UNLESS),
        });
        Reason {
            id: "linear_scan".to_owned(),
            sentence,
            commands,
            risk: Some(risks.join(". ")),
            rule: Some("alloc-linear".to_owned()),
        }
    }

    fn fragmented(&self, sentence: String) -> Reason {
        let (commands, risk) = match self.ask_for_less() {
            Ok((command, risk)) => (
                vec![command],
                format!(
                    "{risk}. Not when free space can be made instead: removing files helps at once"
                ),
            ),
            Err(why) => {
                (Vec::new(), format!("make free space: removing files helps at once. {why}"))
            }
        };
        Reason { id: "fragmented".to_owned(), sentence, commands, risk: Some(risk), rule: None }
    }

    pub(super) fn stripe_livelock(&self) -> Option<Reason> {
        let c = &self.fs.counts;
        let stripe = u64::from(self.fs.stripe);
        let lists = match self.scan() {
            Scan::Lists => Some(true),
            Scan::Unknown => None,
            _ => Some(false),
        };
        if !remedy::may_livelock(&self.kernel, lists, Some(stripe)) || !self.is_noticeable() {
            return None;
        }
        let about_all = (f64::from(self.fs.groups) / 2.0).max(MIN_SCANNED_GROUPS);
        let looks = if is_hooked(self.snapshot, c) {
            // The list proposes the same group again, `ext4_mb_good_group()` accepts it, and it has
            // no aligned run.
            let mean = mean_groups(self.snapshot, c)?;
            (mean >= about_all && self.refused_share()? < MIN_REASON_SHARE).then(|| {
                match c.groups.count() {
                    0 => format!(
                        "groups were looked at {} times in {} and no search has ended",
                        whole(c.looks()),
                        units::seconds(self.snapshot.interval)
                    ),
                    _ => format!(
                        "{} looks at groups {} times",
                        self.each(),
                        whole(mean.round() as u64)
                    ),
                }
            })?
        } else {
            // `ac_groups_scanned` has 16 bits: after a wrap it is too low, never too high.
            let mean = c.scanned.checked_div(c.searches)?;
            (mean as f64 >= about_all.min(f64::from(u16::MAX / 4))).then(|| {
                format!("{} goes through groups {} times or more", self.each(), whole(mean))
            })?
        };
        Some(Reason {
            id: "stripe_livelock".to_owned(),
            sentence: format!(
                "{looks}, and there are {}: with stripe={stripe} this kernel ({}; 6.0 to 6.7 are \
                 affected) tries aligned runs only, and is given the same group again and again",
                whole(u64::from(self.fs.groups)),
                self.kernel.release
            ),
            commands: remedy::stripe_off(&self.mount(), &path_of(&self.fs.name)).to_vec(),
            risk: Some(format!(
                "{}. Not when {}",
                remedy::STRIPE_OFF_RISK,
                remedy::STRIPE_OFF_UNLESS
            )),
            rule: Some("alloc-stripe-livelock".to_owned()),
        })
    }

    /// Reason from samples alone, for kernels where groups cannot be counted.
    pub(super) fn by_samples(&self) -> Option<Reason> {
        let (c, s) = (&self.fs.counts, self.snapshot);
        // If no request started or ended, the samples may belong to another filesystem.
        if has_groups(s, c) || (c.requests == 0 && c.given == 0) {
            return None;
        }
        let (name, n) = self.cpu()?.hottest.as_ref()?;
        let cpus = allocator_cpus(s)?;
        let hottest = cpus * *n as f64 / self.cpu()?.allocator as f64;
        let goes_through = [
            "ext4_mb_good_group",
            "ext4_mb_find_good_group",
            "ext4_mb_regular_allocator",
            "ext4_mb_scan_group",
            "ext4_mb_choose_next_group",
            "ext4_get_group_info",
        ];
        if cpus < MIN_CPUS
            || hottest < 0.3 * cpus
            || cpus * self.seconds < MIN_REQUEST_COST * c.requests as f64
            || !goes_through.iter().any(|f| name.starts_with(f))
        {
            return None;
        }
        let mut sentence = format!(
            "{} of a CPU in {name}; how many groups it looks at is not known here{}",
            units::percent(hottest.min(1.0)),
            match &self.fs.known.unhooked {
                Some(why) => format!(": {why}"),
                None => String::new(),
            }
        );
        if hottest > 1.0 {
            sentence = sentence.replacen("100 % of a CPU", &format!("{hottest:.1} CPUs"), 1);
        }
        match self.scan() {
            Scan::Unknown => Some(Reason { id: "hot".to_owned(), sentence, ..Reason::default() }),
            Scan::Lists => Some(self.fragmented(format!("{sentence}; {}", self.scan_clause()))),
            _ => Some(self.linear(format!("{sentence}; {}", self.scan_clause()))),
        }
    }
}
