//! All programs on a kernel with ext4 as a module (`tests/lab/module.sh`).

use super::{intervals, lab, text};

/// The verifier accepts every program, and every command has its figures.
pub(super) fn programs_load_where_ext4_is_a_module(kernel: &str) {
    let Some(dir) = lab(kernel, "module") else {
        return;
    };
    for command in ["top", "slow", "alloc"] {
        let errors = text(dir.join(format!("{command}.err")));
        let status = text(dir.join(format!("{command}.status")));
        assert_eq!(status.trim(), "0", "{command}: {errors}");
        assert!(!errors.contains("refused"), "{command}: {errors}");
    }
    let any = |command: &str, path: &str| {
        let lines = intervals(dir.join(format!("{command}.out")));
        lines.iter().filter_map(|l| l.pointer(path)?.as_array()).any(|found| !found.is_empty())
    };
    assert!(any("top", "/arrays/0/members/0/io"));
    assert!(any("slow", "/operations") && any("slow", "/commits"));
    assert!(any("alloc", "/filesystems"));
}
