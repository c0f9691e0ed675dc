//! Selects the programs to load from the kernel facts. Pure.

use super::facts::{Filesystems, SlowFacts};
use super::hooks::{
    ASYNC, ASYNC_STARTS, CREATE, HOOKS, HookPoint, IO, ORDERED, READS_AND_WRITES, SlowHook,
    TracedFs,
};
use crate::probe::btf::{NO_TYPES, SLEEPING_RING};
use crate::probe::object::Planned;

/// Hooks to load.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SlowPlan {
    /// Hooks in order of attachment.
    pub hooks: Vec<&'static SlowHook>,
    /// Figures that this kernel cannot give, one line each.
    pub notes: Vec<String>,
    /// Filesystems whose operations are traced.
    pub of: Filesystems,
}

/// Selects the hooks for filesystems.
///
/// # Errors
///
/// One line: what is missing, why, and what to do.
pub fn plan(facts: &SlowFacts, wanted: Filesystems) -> Result<SlowPlan, String> {
    if !facts.btf {
        return Err(NO_TYPES.to_owned());
    }
    if facts.sleeping_ring {
        return Err(SLEEPING_RING.to_owned());
    }
    let mut plan = SlowPlan { of: wanted, ..SlowPlan::default() };
    if wanted.ext4 && !facts.typed.ext4 {
        plan.drop(TracedFs::Ext4, &untyped("ext4 and jbd2", "ext4"))?;
    }
    if wanted.xfs && !facts.typed.xfs {
        plan.drop(TracedFs::Xfs, &untyped("XFS", "xfs"))?;
    }
    for field in &facts.missing {
        plan.notes
            .push(format!("no details of commits: this kernel's types have no field {field}"));
    }
    for hook in HOOKS.iter().filter(|h| h.required) {
        if let Some(why) = hook.on.iter().find_map(|on| missing(on, facts))
            && plan.is_wanted(hook)
        {
            plan.drop(hook.of, &why)?;
        }
    }
    for hook in &HOOKS {
        if !plan.is_wanted(hook) {
            continue;
        }
        let missing = hook.on.iter().find_map(|on| missing(on, facts));
        match missing {
            None if hook.gives == ASYNC && plan.gives(ASYNC) => {}
            None => plan.hooks.push(hook),
            Some(_) if hook.silent => {}
            Some(why) => plan.notes.push(format!("no {}: {why}", hook.gives)),
        }
    }
    let either = [(IO, true), (ASYNC, true), (ORDERED, plan.of.ext4), (CREATE, plan.of.ext4)];
    for (gives, _) in either.into_iter().filter(|(_, wanted)| *wanted) {
        if !plan.hooks.iter().any(|h| h.gives == gives && h.silent) {
            plan.notes.push(format!("no {gives}: this kernel has no hook for them"));
        }
    }
    Ok(plan)
}

/// Reason why operations of a filesystem cannot be traced: no types of the module.
fn untyped(types: &str, module: &str) -> String {
    format!(
        "this kernel does not describe the types of {types} (no /sys/kernel/btf/{module}): either \
         the module is not loaded, or the kernel is older than 5.11 or was built without \
         CONFIG_DEBUG_INFO_BTF_MODULES=y"
    )
}

/// Reason why this kernel lacks a hook point; `None` if the kernel has it.
fn missing(on: &HookPoint, facts: &SlowFacts) -> Option<String> {
    let arguments = |name: &str| facts.tracepoints.get(name).copied();
    match *on {
        HookPoint::AtLeast(name, least) => match arguments(name) {
            Some(n) if n >= least => None,
            Some(n) => Some(format!(
                "the tracepoint {name} has {n} arguments in this kernel, raidtrace expects {least}"
            )),
            None => Some(format!("this kernel has no tracepoint {name}")),
        },
        HookPoint::Exactly(name, n) => (arguments(name) != Some(n))
            .then(|| format!("the tracepoint {name} does not have {n} arguments in this kernel")),
        HookPoint::Function(name) => (!facts.functions.contains_key(name))
            .then(|| format!("this kernel has no traceable function {name}")),
        HookPoint::FunctionOf(name, n) => (facts.functions.get(name) != Some(&n))
            .then(|| format!("the function {name} does not have {n} arguments in this kernel")),
    }
}

impl SlowPlan {
    /// True if programs that give these figures are loaded.
    pub fn gives(&self, figures: &str) -> bool {
        self.hooks.iter().any(|h| h.gives == figures)
    }

    /// True if asynchronous direct IO of a filesystem starts in iomap_dio_rw(), because functions
    /// of the filesystem cannot be hooked.
    pub fn has_late_starts(&self) -> bool {
        let hooked = READS_AND_WRITES.iter().filter(|figures| self.gives(figures)).count();
        let wanted = 2 * (usize::from(self.of.ext4) + usize::from(self.of.xfs));
        hooked < wanted && self.gives(ASYNC) && self.gives(ASYNC_STARTS)
    }

    fn is_wanted(&self, hook: &SlowHook) -> bool {
        match hook.of {
            TracedFs::Any => true,
            TracedFs::Ext4 => self.of.ext4,
            TracedFs::Xfs => self.of.xfs,
        }
    }

    /// Leaves out a filesystem, with a note.
    ///
    /// # Errors
    ///
    /// No other filesystem remains, or the missing part is needed for all of them
    /// (`TracedFs::Any`).
    fn drop(&mut self, of: TracedFs, why: &str) -> Result<(), String> {
        let (name, rest) = match of {
            TracedFs::Any => ("", false),
            TracedFs::Ext4 => ("ext4", self.of.xfs),
            TracedFs::Xfs => ("XFS", self.of.ext4),
        };
        if !rest {
            return Err(format!("slow operations cannot be traced: {why}"));
        }
        self.of.ext4 &= of != TracedFs::Ext4;
        self.of.xfs &= of != TracedFs::Xfs;
        self.hooks.retain(|h| h.of != of);
        self.notes.push(format!("no operations of {name}: {why}"));
        Ok(())
    }
}

impl Planned for SlowPlan {
    fn names(&self) -> Vec<&'static str> {
        let late = self.has_late_starts();
        let used = self.hooks.iter().filter(|h| late || h.gives != ASYNC_STARTS);
        used.flat_map(|h| h.programs).copied().collect()
    }

    /// Drops the hook of the program, and the filesystem whose operations need it.
    fn without(&mut self, program: &str, why: &str) -> bool {
        let has = |h: &&SlowHook| h.programs.contains(&program);
        let Some(at) = self.hooks.iter().position(has) else {
            return false;
        };
        let hook = self.hooks[at];
        let why = format!("this kernel refused {program} ({why})");
        if hook.required {
            return self.drop(hook.of, &why).is_ok();
        }
        self.hooks.remove(at);
        self.notes.push(format!("no {}: {why}", hook.gives));
        true
    }
}

#[cfg(test)]
mod tests;
