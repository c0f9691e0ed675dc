//! Selects the programs to load from the kernel facts. Pure.

use super::facts::SlowFacts;
use super::hooks::{CREATE, HOOKS, Hook, IO, ORDERED, On};

/// Hooks to load.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SlowPlan {
    /// Hooks in order of attachment.
    pub hooks: Vec<&'static Hook>,
    /// Figures that this kernel cannot give, one line each.
    pub notes: Vec<String>,
}

/// Selects the hooks.
///
/// # Errors
///
/// One line: what is missing, why, and what to do.
pub fn plan(facts: &SlowFacts) -> Result<SlowPlan, String> {
    if !facts.btf {
        return Err(
            "this kernel does not describe its types (no /sys/kernel/btf/vmlinux): raidtrace needs a kernel built with \
             CONFIG_DEBUG_INFO_BTF=y"
                .to_owned(),
        );
    }
    if !facts.ext4 {
        return Err(
            "this kernel does not describe the types of ext4 and jbd2 (no /sys/kernel/btf/ext4): either no ext4 is mounted, or the \
             kernel was built without CONFIG_DEBUG_INFO_BTF_MODULES=y"
                .to_owned(),
        );
    }
    let mut plan = SlowPlan::default();
    for hook in &HOOKS {
        let missing = hook.on.iter().find_map(|on| missing(on, facts));
        match missing {
            None => plan.hooks.push(hook),
            Some(why) if hook.required => {
                return Err(format!("slow operations cannot be traced: {why}"));
            }
            Some(_) if hook.silent => {}
            Some(why) => plan.notes.push(format!("no {}: {why}", hook.gives)),
        }
    }
    for gives in [IO, ORDERED, CREATE] {
        let given = |h: &&Hook| h.gives == gives && h.silent;
        if !plan.hooks.iter().copied().any(|h| given(&h)) {
            plan.notes.push(format!(
                "no {gives}: this kernel has no tracepoint for them"
            ));
        }
    }
    Ok(plan)
}

/// Reason why this kernel lacks a hook point; `None` if the kernel has it.
fn missing(on: &On, facts: &SlowFacts) -> Option<String> {
    let arguments = |name: &str| facts.tracepoints.get(name).copied();
    match *on {
        On::AtLeast(name, least) => match arguments(name) {
            Some(n) if n >= least => None,
            Some(n) => Some(format!(
                "the tracepoint {name} has {n} arguments in this kernel, raidtrace expects {least}"
            )),
            None => Some(format!("this kernel has no tracepoint {name}")),
        },
        On::Exactly(name, n) => (arguments(name) != Some(n))
            .then(|| format!("the tracepoint {name} does not have {n} arguments in this kernel")),
        On::Function(name) => (!facts.functions.contains_key(name))
            .then(|| format!("this kernel has no traceable function {name}")),
        On::FunctionOf(name, n) => (facts.functions.get(name) != Some(&n))
            .then(|| format!("the function {name} does not have {n} arguments in this kernel")),
    }
}

impl SlowPlan {
    /// Programs to load.
    pub fn programs(&self) -> impl Iterator<Item = &'static str> {
        self.hooks.iter().flat_map(|h| h.programs.iter().copied())
    }

    /// Drops the hook of a program that the kernel refused. False if the hook is required.
    pub fn without(&mut self, program: &str, why: &str) -> bool {
        let at = self
            .hooks
            .iter()
            .position(|h| h.programs.contains(&program));
        let Some(at) = at.filter(|at| !self.hooks[*at].required) else {
            return false;
        };
        let gone = self.hooks.remove(at);
        self.notes.push(format!(
            "no {}: this kernel refused {program} ({why})",
            gone.gives
        ));
        true
    }
}

#[cfg(test)]
mod tests;
