//! The topology of any machine that the tests run on: `cargo test --test host -- --nocapture`
//! prints it.

use std::os::unix::fs::MetadataExt;

use raidtrace::machine::{ArrayState, Cgroups, HostError, StatFile, Sys, resolve};

#[test]
fn this_machine() {
    let sys = Sys::live();
    let topology = match resolve(&[], &sys) {
        Ok(topology) => topology,
        // A container without sysfs, or without its own disk.
        Err(e @ (HostError::Nothing | HostError::NoSysfs)) => return println!("{e}"),
        Err(e) => panic!("{e}"),
    };
    println!("{topology:#?}");
    assert!(!topology.arrays.is_empty());
    // Loop devices of other tests can go away meanwhile.
    for array in topology.arrays.iter().filter(|a| !a.name.starts_with("loop")) {
        assert!(array.sectors > 0 && !array.members.is_empty());
        assert!(!array.filesystems.is_empty(), "selected because it has a filesystem");
        println!("{}: {:?}", array.name, ArrayState::read(&sys, array).unwrap());
        for member in &array.members {
            let stat = StatFile::open(&sys, &member.disk_name, None).unwrap();
            assert!(stat.read().unwrap().requests() > 0);
        }
        // Every name of the array resolves to the same array.
        let mount = array.filesystems.iter().find_map(|f| f.mounts.first());
        let names = [
            array.name.clone(),
            format!("/dev/{}", array.name),
            mount.map_or(array.name.clone(), |m| m.path.display().to_string()),
        ];
        for name in names {
            let found = resolve(std::slice::from_ref(&name), &sys).unwrap();
            assert!(found.arrays.iter().any(|a| a.dev == array.dev), "{name}");
        }
    }
}

#[test]
fn targets_that_are_not_disks_are_errors() {
    let sys = Sys::live();
    let error_of = |target: &str| match resolve(&[target.into()], &sys) {
        Ok(topology) => panic!("{target}: {topology:?}"),
        Err(e) => {
            println!("{e}");
            e
        }
    };
    let no_disk = error_of("/proc");
    assert!(matches!(no_disk, HostError::NoDisk { .. } | HostError::NoSysfs), "{no_disk}");
    error_of("/proc/self");
    error_of("/dev/null");
    error_of("/nowhere");
    error_of("../../..//nowhere");
}

#[test]
fn a_cgroup_of_this_machine() {
    let mut cgroups = Cgroups::new(&Sys::live());
    for top in ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"] {
        if std::path::Path::new(top).join("cgroup.procs").exists()
            && std::path::Path::new(top).join("cgroup.controllers").exists()
        {
            let id = std::fs::metadata(top).unwrap().ino();
            assert_eq!(cgroups.path(id), Some("/"));
            return;
        }
    }
}
