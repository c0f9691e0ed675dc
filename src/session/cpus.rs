//! Kernel stack samples of all CPUs, symbolized and summed up in a [`Profile`].

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::analysis::profile::sums::{Profile, ProfileStack};
use crate::machine::modules;
use crate::machine::symbols::{self, Symbols};
use crate::probe::cpus::isolated;
use crate::probe::samples::{CpuSample, RawStack, Samples};

/// Symbolized stacks in the cache, which is cleared when it is full.
const MAX_CACHED_STACKS: usize = 1 << 14;
/// Interval of checks for added or removed CPUs and modules.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Functions that run softirqs: the first since Linux 6.10, the second before.
const SOFTIRQS: [&str; 2] = ["handle_softirqs", "__do_softirq"];

const ISOLATED: &str =
    "isolated CPUs (isolcpus=, nohz_full=) are not sampled, because each sample interrupts the CPU";

/// Samples all CPUs that are not isolated until dropped.
pub struct CpuSampler {
    samples: Samples,
    new: Vec<CpuSample>,
    names: Symbolizer,
    hertz: u32,
    everything: bool,
    checked: Instant,
}

/// Symbolizes stacks.
pub struct Symbolizer {
    symbols: Symbols,
    /// Digest of the loaded modules and their addresses when `symbols` was read.
    modules: u64,
    /// Function names by start address, so that each name is stored once.
    functions: HashMap<u64, Arc<str>>,
    stacks: HashMap<RawStack, Arc<ProfileStack>>,
}

impl CpuSampler {
    /// Samples `hertz` times a second (99 avoids lockstep with a 100 Hz tick). `everything` keeps
    /// all stacks; otherwise only those with ext4, jbd2, md or block layer functions are kept, and
    /// all others count as busy time (without symbols, all are kept). `Err` is one line: what
    /// failed, why, and what to do.
    pub fn start(hertz: u32, everything: bool) -> Result<Self, String> {
        let names = Symbolizer::load();
        let softirqs = SOFTIRQS.iter().find_map(|name| names.symbols.range(name));
        Ok(Self {
            samples: Samples::start(hertz, softirqs)?,
            new: Vec::new(),
            names,
            hertz,
            everything,
            checked: Instant::now(),
        })
    }

    /// Adds the samples since the last call. Call this about ten times a second: the kernel's
    /// buffer holds one second.
    pub fn drain(&mut self, into: &mut Profile) -> Result<()> {
        if self.checked.elapsed() >= CHECK_INTERVAL {
            self.checked = Instant::now();
            self.names.reload_if_changed();
            self.samples.update_cpus();
        }
        self.samples.drain(&mut self.new)?;
        let everything = self.everything || !self.named();
        for sample in self.new.drain(..) {
            let stack = self.names.stack(sample.stack);
            let keep = everything || stack.storage;
            into.sample(sample.cpu, sample.pid, &sample.comm, &stack, keep);
        }
        for (cpu, ticks) in self.samples.ticks()? {
            into.ticks(cpu, ticks.idle, ticks.lost);
        }
        Ok(())
    }

    /// Counts samples that are missing in `time` as idle. On 6.18 the sampling timer of an idle
    /// virtual CPU did not fire in tests.
    pub fn fill(&self, profile: &mut Profile, time: Duration) {
        let ticks = (time.as_secs_f64() * f64::from(self.hertz)) as u64;
        for cpu in self.samples.cpus() {
            profile.fill(cpu, ticks);
        }
    }

    /// Replaces the kernel's symbols with those read after hooks were attached, which include the
    /// hooks' trampolines.
    pub fn set_names(&mut self, names: Symbolizer) {
        self.names = names;
    }

    /// Stops sampling. One more [`CpuSampler::drain`] returns the remaining samples.
    pub fn stop(&mut self) {
        self.samples.stop();
    }

    /// True if the kernel's symbols are readable. Without them the allocator's share of the CPU is
    /// unknown, not 0.
    pub fn named(&self) -> bool {
        self.names.symbols.has_symbols()
    }

    /// Limits of the samples, one line each.
    pub fn notes(&self) -> Vec<String> {
        let hidden = (!self.named()).then(|| hidden(symbols::why_hidden()));
        let isolated = (!isolated().is_empty()).then(|| ISOLATED.to_owned());
        hidden.into_iter().chain(isolated).collect()
    }
}

fn hidden((why, fix): (&str, &str)) -> String {
    format!(
        "the kernel hides its symbols, as {why}: functions are shown as addresses, and the \
         allocator's share of the CPU is unknown; fix: {fix}"
    )
}

impl Symbolizer {
    /// Reads the kernel's symbols, which takes some 100 ms.
    pub fn load() -> Self {
        Self {
            modules: modules::digest(),
            symbols: Symbols::load(),
            functions: HashMap::new(),
            stacks: HashMap::new(),
        }
    }

    /// Reads the symbols again after modules were loaded or removed.
    fn reload_if_changed(&mut self) {
        if self.modules != modules::digest() {
            *self = Self::load();
        }
    }

    fn stack(&mut self, addresses: RawStack) -> Arc<ProfileStack> {
        if let Some(known) = self.stacks.get(&addresses) {
            return Arc::clone(known);
        }
        let stack = Arc::new(match &addresses {
            RawStack::User => ProfileStack::mark("[user]"),
            RawStack::Unknown => ProfileStack::mark("[unknown stack]"),
            RawStack::Kernel(all) => self.resolve(all),
        });
        if self.stacks.len() >= MAX_CACHED_STACKS {
            self.stacks.clear();
        }
        self.stacks.insert(addresses, Arc::clone(&stack));
        stack
    }

    fn resolve(&mut self, addresses: &[u64]) -> ProfileStack {
        let mut functions = Vec::with_capacity(addresses.len());
        for (i, &address) in addresses.iter().enumerate().rev() {
            // A call can be the last instruction of a function; its return address is then in the
            // next function.
            let inside = if i == 0 { address } else { address.wrapping_sub(1) };
            let name_and_module = match self.symbols.at(inside) {
                None => (format!("{address:#x}").into(), None),
                Some(function) => {
                    let name = self
                        .functions
                        .entry(function.begin)
                        .or_insert_with(|| function.name.into());
                    (Arc::clone(name), function.module)
                }
            };
            functions.push(name_and_module);
        }
        ProfileStack::new(functions)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::{Symbolizer, hidden};
    use crate::machine::symbols::Symbols;
    use crate::probe::samples::RawStack;

    fn names(text: &str) -> Symbolizer {
        Symbolizer {
            symbols: Symbols::parse(text.as_bytes()),
            modules: 0,
            functions: HashMap::new(),
            stacks: HashMap::new(),
        }
    }

    const TEXT: &str = "\
ffffffff81000000 T caller
ffffffff81000100 T next
ffffffffc0100000 t ext4_mb_good_group\t[ext4]
";

    #[test]
    fn a_return_address_names_the_caller() {
        let mut names = names(TEXT);
        let next = 0xffff_ffff_8100_0100;
        let (leaf, unknown) = (0xffff_ffff_c010_0000, 0xffff_ffff_f000_0000);
        let stack = names.stack(RawStack::Kernel(vec![leaf, next, unknown]));
        let read: Vec<&str> = stack.names().iter().map(|n| &**n).collect();
        assert_eq!(read, ["0xfffffffff0000000", "caller", "ext4_mb_good_group"]);
        assert!(stack.allocator && stack.storage);
        // Interrupted at its first instruction.
        let stack = names.stack(RawStack::Kernel(vec![next]));
        assert_eq!(&*stack.names()[0], "next");
    }

    #[test]
    fn equal_addresses_share_one_stack() {
        let mut names = names(TEXT);
        let addresses = RawStack::Kernel(vec![0xffff_ffff_8100_0001]);
        let (one, two) = (names.stack(addresses.clone()), names.stack(addresses));
        assert!(std::sync::Arc::ptr_eq(&one, &two));
        for i in 0..2 * super::MAX_CACHED_STACKS as u64 {
            names.stack(RawStack::Kernel(vec![i]));
        }
        assert!(names.stacks.len() <= super::MAX_CACHED_STACKS);
    }

    #[test]
    fn hidden_symbols_give_one_note() {
        let mut names = names("0000000000000000 T caller\n");
        let stack = names.stack(RawStack::Kernel(vec![0xffff_ffff_8100_0001]));
        assert_eq!(&*stack.names()[0], "0xffffffff81000001");
        insta::assert_snapshot!(hidden((
            "kernel.kptr_restrict is 2",
            "as root: sysctl kernel.kptr_restrict=1"
        )));
    }
}
