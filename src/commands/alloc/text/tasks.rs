//! Lines of tasks, files and CPUs.

use std::io::{self, Write};

use super::{COLUMNS, MAX_NAMED, labelled};
use crate::analysis::alloc::figures::{
    LATENCY, allocator_cpus, has, is_hooked, one_cpu, rest, whole,
};
use crate::analysis::alloc::{AllocShare, AllocSnapshot, FsAlloc};
use crate::analysis::units::{count, percent};
use crate::ui::rows::{label, seconds};
use crate::ui::text::{clean, end, glue, sanitize, width, wrap};

/// Maximum number of CPUs to list.
const MAX_CPUS: usize = 8;

/// `21/s, 8.0k blocks/s, 91 % of allocation time, 436k groups each`
pub(in crate::commands::alloc) fn activity(
    share: &AllocShare,
    fs: &FsAlloc,
    s: &AllocSnapshot,
) -> String {
    let secs = seconds(s.interval);
    let mut text = format!(
        "{}/s, {} blocks/s",
        count(share.requests as f64 / secs),
        count(share.blocks as f64 / secs),
    );
    if has(s, LATENCY, fs.counts.nanoseconds > 0) {
        let time = share.nanoseconds as f64 / fs.counts.nanoseconds.max(1) as f64;
        text.push_str(&format!(", {} of allocation time", percent(time)));
    }
    if is_hooked(s, &fs.counts) && share.requests > 0 {
        text.push_str(&format!(
            ", {} groups each",
            count(share.looked as f64 / share.requests as f64)
        ));
    }
    text
}

/// Writes a name, which may be long, and its activity.
fn row(out: &mut Vec<u8>, name: &str, figures: &str) -> io::Result<()> {
    let room = COLUMNS - 2;
    if width(name) + 2 + width(figures) <= room {
        return writeln!(out, "  {name}: {figures}");
    }
    writeln!(out, "  {}:", end(name, room - 1))?;
    for text in wrap(figures, room - 4, 2) {
        writeln!(out, "      {text}")?;
    }
    Ok(())
}

pub(super) fn tasks(out: &mut Vec<u8>, s: &AllocSnapshot, fs: &FsAlloc) -> io::Result<()> {
    for task in fs.tasks.iter().take(MAX_NAMED) {
        let role = match &task.role {
            Some(role) => format!(", {}", clean(role)),
            None => String::new(),
        };
        let name = format!("by {} (pid {}{role})", sanitize(&task.comm), task.pid);
        row(out, &name, &activity(&task.share, fs, s))?;
    }
    let shares = fs.tasks.iter().map(|t| &t.share);
    more(out, "tasks", (fs, s), shares)
}

pub(super) fn files(out: &mut Vec<u8>, s: &AllocSnapshot, fs: &FsAlloc) -> io::Result<()> {
    for file in fs.files.iter().take(MAX_NAMED) {
        let name = format!("for {}", label(file.id.inode, &file.location));
        row(out, &name, &activity(&file.share, fs, s))?;
    }
    let shares = fs.files.iter().map(|f| &f.share);
    more(out, "files", (fs, s), shares)
}

/// Writes a line for the remaining tasks or files, if any.
fn more<'a>(
    out: &mut Vec<u8>,
    what: &str,
    (fs, s): (&FsAlloc, &AllocSnapshot),
    all: impl ExactSizeIterator<Item = &'a AllocShare>,
) -> io::Result<()> {
    if all.len() <= MAX_NAMED {
        return Ok(());
    }
    let rest = rest(fs, all.take(MAX_NAMED));
    row(out, &format!("other {what}"), &activity(&rest, fs, s))
}

/// CPUs by their share of samples in the allocator, busiest first.
pub(in crate::commands::alloc) fn busiest(s: &AllocSnapshot) -> Vec<(u32, f64)> {
    let mut each: Vec<(u32, f64)> = s
        .cpus
        .iter()
        .filter(|(_, c)| c.allocator > 0)
        .map(|(n, c)| (*n, c.allocator as f64 / c.possible.max(1) as f64))
        .collect();
    each.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    each
}

/// `0.98 CPUs in the allocator, most in ext4_mb_good_group (88 % of that)`
pub(in crate::commands::alloc) fn in_allocator(s: &AllocSnapshot) -> Option<String> {
    let cpu = s.cpu.as_ref()?;
    let mut text = match allocator_cpus(s) {
        Some(cpus) => format!("{cpus:.2} CPUs in the allocator"),
        None => format!("{} samples in the allocator", whole(cpu.allocator)),
    };
    if let Some((name, n)) = cpu.hottest.as_ref().filter(|_| cpu.allocator > 0) {
        let share = percent(*n as f64 / cpu.allocator as f64);
        text.push_str(&format!(", most in {} ({share} of that)", clean(name)));
    }
    if s.others > 0 && cpu.allocator > 0 {
        let (n, plural) = (s.others, if s.others == 1 { "" } else { "s" });
        text.push_str(&format!(
            "; includes {n} other mounted ext4 filesystem{plural}: samples do not identify the \
             filesystem"
        ));
    }
    if let Some(one) = one_cpu(s).filter(|_| cpu.hooks > 0) {
        let hooks = cpu.hooks as f64 / one as f64;
        text.push_str(&format!("; plus {hooks:.2} in hooks (tracing)"));
    }
    Some(text)
}

pub(super) fn cpus(out: &mut Vec<u8>, s: &AllocSnapshot) -> io::Result<()> {
    let Some(text) = in_allocator(s) else {
        return Ok(());
    };
    labelled(out, "CPU", &text)?;
    let each = busiest(s);
    let mut named: Vec<String> = each
        .iter()
        .take(MAX_CPUS)
        .map(|(n, share)| glue(&format!("CPU {n} {}", percent(*share))))
        .collect();
    if each.len() > MAX_CPUS {
        named.push(format!("{} more", each.len() - MAX_CPUS));
    }
    if !named.is_empty() {
        labelled(out, "", &named.join(", "))?;
    }
    let one = one_cpu(s);
    for (pid, comm, cpu) in s.on_cpu.iter().filter(|t| t.2.allocator > 0).take(MAX_NAMED) {
        let share = match one {
            Some(one) => format!("{} of a CPU", percent(cpu.allocator as f64 / one as f64)),
            None => format!("{} samples", whole(cpu.allocator)),
        };
        let text = format!("{} (pid {pid}): {share} in mballoc", sanitize(comm));
        labelled(out, "", &glue(&text))?;
    }
    Ok(())
}
