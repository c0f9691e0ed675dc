//! I/O limits of the cgroups of tasks (io.max of cgroup2).

use std::path::Path;

use crate::advice::slow::IoLimit;
use crate::machine::{Dev, Sys};

/// Path of a task's cgroup below the root of cgroup2; `None` if the task has ended.
pub(super) fn cgroup(sys: &Sys, pid: u32) -> Option<String> {
    let text = sys.text(&format!("/proc/{pid}/cgroup"))?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some(path.to_owned())
}

/// The limit closest to a cgroup on one of `devices`. Each level up to the root can have a limit
/// (tg_bps_limit() of block/blk-throttle.c).
pub(super) fn of_cgroup(sys: &Sys, cgroup: &str, devices: &[(Dev, &str)]) -> Option<IoLimit> {
    Path::new(cgroup).ancestors().find_map(|level| {
        let cgroup = level.to_str()?;
        let file = format!("/sys/fs/cgroup{cgroup}/io.max");
        let limits = sys.text(&file)?;
        limits.lines().find_map(|line| {
            let (number, limits) = line.split_once(' ')?;
            let dev = Dev::parse(number)?;
            let (_, device) = devices.iter().find(|(d, _)| *d == dev)?;
            let set = limits.split(' ').filter(|word| !word.ends_with("=max"));
            Some(IoLimit {
                cgroup: cgroup.to_owned(),
                device: (*device).to_owned(),
                number: number.to_owned(),
                limits: set.collect::<Vec<_>>().join(" "),
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::{cgroup, of_cgroup};
    use crate::machine::Dev;
    use crate::machine::tests::tree::Tree;

    #[test]
    fn the_limit_of_a_parent_applies() {
        let tree = Tree::new("");
        tree.write("proc/7/cgroup", "0::/db/shard1\n");
        tree.write("proc/8/cgroup", "0::/web\n");
        tree.write("sys/fs/cgroup/db/shard1/io.max", "8:0 rbps=max wbps=1 riops=max wiops=max\n");
        tree.write("sys/fs/cgroup/db/io.max", "9:120 rbps=max wbps=300000 riops=max wiops=6\n");
        tree.write("sys/fs/cgroup/web/io.max", "");
        let devices = [(Dev::parse("9:120").unwrap(), "md120")];
        let sys = tree.sys();
        let of_task = |pid| of_cgroup(&sys, &cgroup(&sys, pid)?, &devices);
        let found = of_task(7).unwrap();
        assert_eq!(
            (&found.cgroup[..], &found.device[..], &found.limits[..]),
            ("/db", "md120", "wbps=300000 wiops=6")
        );
        assert_eq!(of_task(8), None);
        assert_eq!(of_task(9), None, "it has ended");
    }
}
