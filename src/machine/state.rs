//! State of an array that changes at run time, read from a few sysfs files once a second.

use super::HostError;
use super::array::{progress, words};
use super::sys::{Sys, attribute, names, number};
use super::types::{Array, Dev, Member};

/// Current state of an array; see [`Array`] for the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArrayState {
    /// md/array_state.
    pub array_state: String,
    /// md/degraded.
    pub degraded: u32,
    /// md/sync_action.
    pub sync_action: Option<String>,
    /// md/sync_completed: sectors done, and total sectors.
    pub sync_completed: Option<(u64, u64)>,
    /// md/reshape_position, in sectors of the array.
    pub reshape_position: Option<u64>,
    /// [`DmRaidStatus::target`]; empty for others, and if it was not read.
    ///
    /// [`DmRaidStatus::target`]: super::dm_raid::DmRaidStatus::target
    pub target: String,
    /// Members, in the order of their names.
    pub members: Vec<MemberState>,
}

/// Current state of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberState {
    /// Kernel name.
    pub name: String,
    /// Slot in the array.
    pub slot: Option<u32>,
    /// Words of md/dev-*/state.
    pub state: Vec<String>,
}

impl ArrayState {
    /// Reads the state of an array from [`super::resolve`].
    ///
    /// # Errors
    /// [`HostError::Stopped`] if md no longer runs the array or another array has its name.
    /// [`HostError::Removed`] if a disk without md was removed.
    pub fn read(sys: &Sys, array: &Array) -> Result<Self, HostError> {
        let dir = sys.path("/sys/block").join(&array.name);
        let dev = attribute(dir.join("dev")).and_then(|t| Dev::parse(&t));
        let name = array.name.clone();
        if !array.is_md() {
            // A detached loop device stays in sysfs with size 0.
            let empty = attribute(dir.join("size")).is_some_and(|s| s.trim() == "0");
            return if dev == Some(array.dev) && !empty {
                Ok(Self::from_array(array))
            } else {
                Err(HostError::Removed(name))
            };
        }
        if array.mapper_name.is_some() {
            let status = sys.dm().raid_status(array.dev);
            let status = status.map_err(|_| HostError::Stopped(name))?;
            let words = |m: &Member| {
                let mut words = m.slot.map_or_else(Vec::new, |slot| status.words(slot));
                // Only the table has it.
                words.extend(m.state.iter().filter(|word| *word == "write_mostly").cloned());
                words
            };
            return Ok(Self {
                array_state: "active".to_owned(),
                degraded: status.degraded(&array.level),
                sync_action: array.sync_action.is_some().then(|| status.action.clone()),
                sync_completed: status.sync_completed(),
                reshape_position: status.reshape_position(),
                members: members_of(array, words),
                target: status.target,
            });
        }
        let md = dir.join("md");
        let array_state = attribute(md.join("array_state")).unwrap_or_default();
        if dev != Some(array.dev) || !is_running(&array_state) {
            return Err(HostError::Stopped(name));
        }
        let members = names(&md)
            .iter()
            .filter_map(|entry| {
                let dir = md.join(entry);
                Some(MemberState {
                    name: entry.strip_prefix("dev-")?.to_string(),
                    slot: number(dir.join("slot")),
                    state: attribute(dir.join("state")).map_or_else(Vec::new, |t| words(&t)),
                })
            })
            .collect();
        Ok(Self {
            array_state,
            degraded: number(md.join("degraded")).unwrap_or(0),
            sync_action: attribute(md.join("sync_action")),
            sync_completed: attribute(md.join("sync_completed")).and_then(|t| progress(&t)),
            target: String::new(),
            reshape_position: number(md.join("reshape_position")),
            members,
        })
    }

    /// The state when the array was resolved.
    pub fn from_array(array: &Array) -> Self {
        Self {
            array_state: array.array_state.clone(),
            degraded: array.degraded,
            sync_action: array.sync_action.clone(),
            sync_completed: array.sync_completed,
            target: String::new(),
            reshape_position: array.reshape_position,
            members: members_of(array, |m| m.state.clone()),
        }
    }

    /// `None` for a clean, idle array; else e.g. `degraded, recover 12.3 %`.
    pub fn health(&self) -> Option<String> {
        let mut health = Vec::new();
        if matches!(self.array_state.as_str(), "broken" | "readonly" | "read-auto" | "suspended") {
            health.push(self.array_state.clone());
        }
        match self.degraded {
            0 => {}
            1 => health.push("degraded".into()),
            n => health.push(format!("degraded by {n}")),
        }
        if let Some(action) = self.sync_action.as_deref().filter(|a| *a != "idle") {
            health.push(match self.sync_completed {
                Some((done, total)) if total > 0 => {
                    format!("{action} {:.1} %", 100.0 * done as f64 / total as f64)
                }
                // md: arrays that share a disk are synced one by one.
                None if action != "frozen" => format!("{action} waiting"),
                _ => action.to_string(),
            });
        }
        (!health.is_empty()).then(|| health.join(", "))
    }
}

/// Members by name, with the words of their state.
fn members_of(array: &Array, words: impl Fn(&Member) -> Vec<String>) -> Vec<MemberState> {
    let members = array.members.iter();
    let mut members: Vec<MemberState> = members
        .map(|m| MemberState { name: m.name.clone(), slot: m.slot, state: words(m) })
        .collect();
    members.sort_by(|a, b| a.name.cmp(&b.name));
    members
}

impl MemberState {
    /// `faulty`, `journal` or `replacement`; else `None` if in sync; else `recovering` (a spare
    /// with a slot) or `spare`.
    pub fn health(&self) -> Option<String> {
        let has = |word: &str| self.state.iter().any(|w| w == word);
        let word = if has("faulty") {
            "faulty"
        } else if has("journal") {
            "journal"
        } else if has("replacement") {
            "replacement"
        } else if has("in_sync") {
            return None;
        } else if self.slot.is_some() {
            "recovering"
        } else {
            "spare"
        };
        Some(word.to_string())
    }
}

/// True if md serves IO in this state (drivers/md/md.c, array_state_show).
pub(super) fn is_running(array_state: &str) -> bool {
    !matches!(array_state, "" | "clear" | "inactive")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_in_words() {
        let mut s = ArrayState {
            array_state: "clean".into(),
            sync_action: Some("idle".into()),
            ..ArrayState::default()
        };
        assert_eq!(s.health(), None);
        s.degraded = 1;
        s.sync_action = Some("recover".into());
        s.sync_completed = Some((123, 1000));
        assert_eq!(s.health().as_deref(), Some("degraded, recover 12.3 %"));
        s.sync_completed = Some((0, 0));
        assert_eq!(s.health().as_deref(), Some("degraded, recover"));
        let member = |slot, state: &[&str]| {
            MemberState {
                name: String::new(),
                slot,
                state: state.iter().map(|s| s.to_string()).collect(),
            }
            .health()
        };
        assert_eq!(member(Some(1), &["in_sync", "write_mostly"]), None);
        assert_eq!(member(Some(1), &["spare"]).as_deref(), Some("recovering"));
        assert_eq!(member(None, &["spare"]).as_deref(), Some("spare"));
        assert_eq!(member(None, &["faulty", "blocked"]).as_deref(), Some("faulty"));
    }
}
