//! Targets, and errors for invalid ones.

use super::tree::{Tree, raid0_of_12};
use crate::machine::crowded::leave_out;
use crate::machine::{HostTopology, StatFile, resolve_again};

fn says(result: Result<String, String>, parts: &[&str]) {
    let text = result.unwrap_err();
    assert!(!text.contains('\n'));
    for part in parts {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn every_way_to_name_an_array() {
    let tree = raid0_of_12();
    for target in
        ["md127", "/dev/md127", "/dev/md/lab:0", "loop1", "/dev/loop12", "/srv", "/srv/", "//srv/."]
    {
        assert_eq!(tree.names(&[target]).as_deref(), Ok("md127"), "{target}");
    }
    assert_eq!(tree.names(&["/", "loop1", "vda", "/srv"]).as_deref(), Ok("md127 vda"));
    assert_eq!(tree.names(&[]).as_deref(), Ok("md127"));
}

#[test]
fn partitions_dm_and_links() {
    let mut tree = Tree::new(
        "disk sda 8:0 2000
        part sda1 8:1 500 disk=sda number=1 start=100
        part sda2 8:2 500 disk=sda number=2 start=1000
        disk cciss!c0d0 104:0 1000
        md md0 9:0 400 level=raid1 raid_disks=2 array_state=clean
        member md0 sda2 slot=0 state=in_sync size=200
        part md0p1 259:0 300 disk=md0 number=1 start=10
        dm dm-0 253:0 100 name=vg-lv uuid=LVM-1 slaves=md0p1
        mount 8:1 /boot ext4 /dev/sda1 rw
        link dev/mapper/vg-lv ../dm-0
        link dev/vg/lv ../dm-0
        file dev/cciss/c0d0",
    );
    for (target, expected) in [
        ("sda2", "md0"),
        ("sda", "md0"),
        ("sda1", "sda"),
        ("/boot", "sda"),
        ("/dev/md0p1", "md0"),
        ("/dev/mapper/vg-lv", "md0"),
        ("/dev/vg/lv", "md0"),
        ("vg-lv", "md0"),
        ("dm-0", "md0"),
        ("/dev/cciss/c0d0", "cciss!c0d0"),
        ("cciss/c0d0", "cciss!c0d0"),
    ] {
        assert_eq!(tree.names(&[target]).as_deref(), Ok(expected), "{target}");
    }
    assert_eq!(tree.names(&[]).as_deref(), Ok("md0"), "nothing on it is mounted");
    tree.add("mount 253:0 /lv ext4 /dev/mapper/vg-lv rw");
    assert_eq!(tree.names(&[]).as_deref(), Ok("md0"));
}

#[test]
fn btrfs_has_an_anonymous_number() {
    let tree = Tree::new("disk sdb 8:16 1000\n mount 0:40 /b btrfs /dev/sdb rw");
    assert_eq!(tree.names(&["/b"]).as_deref(), Ok("sdb"));
    assert_eq!(tree.names(&[]).as_deref(), Ok("sdb"));
}

#[test]
fn errors_have_a_reason_and_a_remedy() {
    let mut tree = raid0_of_12();
    tree.add(
        "file srv/db/table x
        file dev/shm/x x
        md md5 9:5 0 array_state=inactive raid_disks=2
        md md126 9:126 0 array_state=inactive metadata_version=external:imsm
        md md125 9:125 100 array_state=active level=raid1 raid_disks=1 \
         metadata_version=external:/md126/0
        dm dm-9 253:9 10 name=zero uuid= slaves=",
    );
    says(tree.names(&["sdz"]), &["sdz", "no such", "ls /sys/block"]);
    says(tree.names(&["/dev/sdz"]), &["/dev/sdz", "no such"]);
    says(tree.names(&[""]), &["no such device"]);
    says(tree.names(&["/srv/db"]), &["/srv/db", "neither", "mounted at /srv:"]);
    says(tree.names(&["/srv/db/table"]), &["mounted at /srv:"]);
    says(tree.names(&["/dev/shm"]), &["/dev/shm is tmpfs", "no disk beneath"]);
    says(tree.names(&["md5"]), &["md5 is inactive", "mdadm --run /dev/md5"]);
    says(tree.names(&["md126"]), &["container", "md125"]);
    says(tree.names(&["zero"]), &["nothing beneath"]);
    assert_eq!(tree.names(&["md125"]).as_deref(), Ok("md125"));
}

/// A database or a virtual machine on the array itself; the root filesystem is on another disk.
#[test]
fn an_array_without_a_filesystem_is_chosen_before_disks() {
    let tree = raid0_of_12();
    let mounted = tree.names(&[]);
    std::fs::write(tree.path("proc/self/mountinfo"), "").unwrap();
    assert_eq!(tree.names(&[]), mounted);
}

#[test]
fn nothing_mounted_and_no_sysfs() {
    let tree = Tree::new(
        "disk sda 8:0 1000
        disk loop0 7:0 100
        mount 7:0 /snap/core squashfs /dev/loop0 ro
        mount 0:5 /proc proc proc rw",
    );
    says(tree.names(&[]), &["no md array", "raidtrace top sda"]);
    assert_eq!(tree.names(&["/snap/core"]).as_deref(), Ok("loop0"));
    std::fs::remove_dir_all(tree.path("sys")).unwrap();
    says(tree.names(&["sda"]), &["sysfs is not mounted", "mount -t sysfs"]);
}

#[test]
fn statistics_of_a_removed_disk() {
    let tree = raid0_of_12();
    tree.write("sys/block/vda/stat", "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n");
    let stat = StatFile::open(&tree.sys(), "vda", None).unwrap();
    assert_eq!(stat.read().map(|s| s.requests()), Ok(1 + 5 + 12 + 16));
    // In place: the file stays open.
    let path = tree.path("sys/block/vda/stat");
    std::fs::write(path, "2 2 3 4 5 6 7 8 9 10 11\n").unwrap();
    assert_eq!(stat.read().map(|s| s.reads), Ok(2));
    let gone = StatFile::open(&tree.sys(), "vda", Some("vda9")).unwrap_err();
    assert_eq!(gone.to_string(), "vda9 was removed from this machine");
}

/// 17 arrays on 17 partitions of two disks, as NAS systems make them: the two with the least IO are
/// left out, and a later look keeps those that are traced.
#[test]
fn more_slices_than_a_disk_can_carry() {
    let mut text = "disk sda 8:0 100000\ndisk sdb 8:32 100000\n".to_owned();
    for n in 1..=17 {
        let start = n * 1000;
        text += &format!(
            "part sda{n} 8:{n} 900 disk=sda number={n} start={start}\n\
             part sdb{n} 8:{} 900 disk=sdb number={n} start={start}\n\
             md md{n} 9:{n} 800 level=raid1 raid_disks=2 array_state=clean\n\
             member md{n} sda{n} slot=0 state=in_sync size=400\n\
             member md{n} sdb{n} slot=1 state=in_sync size=400\n",
            32 + n
        );
    }
    let tree = Tree::new(&text);
    let stat = |n: u32, sectors: u32| {
        tree.write(format!("sys/block/md{n}/stat"), format!("1 0 {sectors} 0 1 0 0 0 0 0 0\n"));
    };
    (1..=17).for_each(|n| stat(n, if n == 5 || n == 16 { 1 } else { 1000 }));
    let host = tree.resolve(&[]).unwrap();
    let traced = leave_out(&tree.sys(), &[], host.clone());
    let names = |host: &HostTopology| -> Vec<String> {
        host.arrays.iter().map(|array| array.name.clone()).collect()
    };
    assert_eq!(names(&traced).len(), 15);
    assert!(!names(&traced).iter().any(|name| name == "md5" || name == "md16"));
    let note = traced.notes.last().unwrap();
    assert!(note.starts_with("not traced: md5, md16, which had less IO"), "{note}");
    // Another array has less IO now.
    stat(5, 5000);
    let again = resolve_again(&[], &traced, &tree.sys(), false).unwrap();
    assert_eq!(names(&again), names(&traced));
    let few = leave_out(&tree.sys(), &[], tree.resolve(&["md5", "md16"]).unwrap());
    assert_eq!(names(&few), ["md5", "md16"]);
}
