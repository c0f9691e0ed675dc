//! Kernel stacks sampled in an interval.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{ROWS, at_most, lossy, raw};
use crate::analysis::profile::{Profile, ProfileStack};
use crate::printable::{clean, hex};

/// Sampled stacks, and the number of samples whose stack did not fit.
#[derive(Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub(super) struct Stacks {
    #[serde(deserialize_with = "at_most::<_, _, ROWS>")]
    kept: Vec<Kept>,
    other: u32,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
struct Kept {
    comm: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    comm_bytes: Option<String>,
    /// Functions from the outermost to the innermost, separated by `;`.
    stack: String,
    samples: u32,
}

impl Stacks {
    pub(super) fn new(profile: &Profile) -> Self {
        let mut kept: Vec<Kept> = profile
            .stacks()
            .map(|(comm, stack, samples)| Kept {
                comm: lossy(comm),
                comm_bytes: hex(Some(comm)),
                stack: stack.names().join(";"),
                samples: u32::try_from(samples).unwrap_or(u32::MAX),
            })
            .collect();
        kept.sort_by(|a, b| (&a.stack, &a.comm).cmp(&(&b.stack, &b.comm)));
        Self { kept, other: u32::try_from(profile.other()).unwrap_or(u32::MAX) }
    }

    pub(super) fn read(self) -> Profile {
        let mut profile = Profile::default();
        let mut names: HashMap<String, Arc<str>> = HashMap::new();
        for kept in self.kept {
            let functions = kept.stack.split(';').map(|name| {
                // Untrusted, and may be displayed on a terminal.
                let name = clean(name);
                let known = names.entry(name.to_string());
                (Arc::clone(known.or_insert_with(|| (*name).into())), None)
            });
            let stack = Arc::new(ProfileStack::new(functions));
            let comm = raw(kept.comm, kept.comm_bytes);
            profile.add_stack(&comm, &stack, u64::from(kept.samples));
        }
        profile.add_other(u64::from(self.other));
        profile
    }
}
