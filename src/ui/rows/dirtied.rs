//! Tasks that dirtied the metadata and file data that jbd2 and writeback write, and their shares.
//! Pure.

use crate::analysis::files::FileId;
use crate::analysis::snapshot::TaskSnapshot;
use crate::analysis::units;
use crate::origin::Origin;
use crate::ui::text;

/// Number of tasks that are named.
const MAX_NAMED: usize = 4;

/// `touch (pid 4711) 97 % and cp (pid 12) 3 %`: the tasks that dirtied metadata (for jbd2) or file
/// data (for writeback). Empty for other tasks, and if no task is known.
pub fn on_behalf_of(task: &TaskSnapshot, tasks: &[TaskSnapshot]) -> String {
    if !task.writes_for_others() {
        return String::new();
    }
    let data = !task.role.as_deref().is_some_and(|role| role.starts_with("jbd2"));
    shares(tasks, |t| {
        let io = t.dirtied.iter().filter(|i| (i.origin == Origin::FileData) == data);
        io.map(|i| i.bytes).fold(0, u64::saturating_add)
    })
}

/// The tasks that dirtied data of a file, as in [`on_behalf_of`].
pub fn dirtied_by(file: FileId, tasks: &[TaskSnapshot]) -> String {
    shares(tasks, |t| {
        t.dirtied_files.busiest.iter().find(|f| f.id == file).map_or(0, |f| f.bytes())
    })
}

fn shares(tasks: &[TaskSnapshot], bytes: impl Fn(&TaskSnapshot) -> u64) -> String {
    let mut all: Vec<_> =
        tasks.iter().map(|t| (t, bytes(t) as f64)).filter(|(_, part)| *part > 0.0).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    let total: f64 = all.iter().map(|(_, part)| part).sum();
    let each = all.iter().take(MAX_NAMED).map(|(t, part)| {
        let comm = text::sanitize(&t.comm);
        let share = text::glue(&units::percent(part / total));
        format!("{comm} (pid {}) {share}", t.pid)
    });
    each.collect::<Vec<_>>().join(" and ")
}
