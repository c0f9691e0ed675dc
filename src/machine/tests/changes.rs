//! Differences between two topologies of a machine.

use super::tree::{Tree, raid0_of_12};
use crate::machine::{
    Dev, DeviceRole, HostTopology, MainDevice, Member, differences, resolve_again, with_lost,
};

const RAID5: &str = "
    disk sda 8:0 2000000
    disk sdb 8:16 2000000
    disk sdc 8:32 2000000
    md md0 9:0 3000000 level=raid5 layout=2 chunk_size=65536 raid_disks=3 component_size=750000 \
                     metadata_version=1.2 array_state=clean degraded=0 sync_action=idle \
                     reshape_position=none bitmap/location=+8 bitmap/space=128
    member md0 sda slot=0 state=in_sync offset=2048 new_offset=2048 size=750000
    member md0 sdb slot=1 state=in_sync offset=2048 new_offset=2048 size=750000
    member md0 sdc slot=2 state=in_sync offset=2048 new_offset=2048 size=750000
    mount 9:0 /data ext4 /dev/md0 rw";

fn look(tree: &Tree, known: &HostTopology) -> HostTopology {
    resolve_again(&[], known, &tree.sys(), false).unwrap()
}

/// Differences after a change to the machine `text`.
fn after(text: &str, change: impl Fn(&mut Tree)) -> String {
    let mut tree = Tree::new(text);
    let then = look(&tree, &tree.resolve(&[]).unwrap());
    assert_eq!(differences(&then, &look(&tree, &then)), [""; 0]);
    change(&mut tree);
    differences(&then, &look(&tree, &then)).join("; ")
}

fn written(file: &str, text: &str) -> String {
    after(RAID5, |tree| tree.write(format!("sys/block/md0/md/{file}"), format!("{text}\n")))
}

#[test]
fn geometry() {
    for (file, text, said) in [
        ("raid_disks", "4 (3)", "md0: 3 -> 4 disks"),
        ("level", "raid6", "md0: raid5 -> raid6"),
        ("chunk_size", "131072 (65536)", "md0: chunk 64 -> 128 KiB"),
        ("layout", "5 (2)", "md0: layout 2 -> 5"),
        ("reshape_position", "8192", "md0: a reshape has begun"),
        ("component_size", "700000", "md0: component size changed"),
        (
            "metadata_version",
            "1.1",
            "md0: metadata version changed, sda and sdb and sdc with another layout or queue",
        ),
        ("dev-sda/offset", "4096", "md0: sda with another layout or queue"),
        ("dev-sda/new_offset", "4096", "md0: sda with another layout or queue"),
        ("dev-sdc/slot", "5", "md0: sdc in another slot, a member is missing"),
        ("bitmap/location", "none", "md0: sda and sdb and sdc with another layout or queue"),
    ] {
        assert_eq!(written(file, text), said, "{file}");
    }
    assert_eq!(
        after(RAID5, |t| t.write("sys/block/md0/size", "4000000\n")),
        "md0: 1464 -> 1953 MiB"
    );
    assert_eq!(
        after(RAID5, |t| t.write("sys/block/sda/queue/iostats", "1\n")),
        "md0: sda with another layout or queue"
    );
}

fn removed(tree: &mut Tree) {
    std::fs::remove_dir_all(tree.path("sys/block/md0/md/dev-sdc")).unwrap();
    std::fs::remove_dir_all(tree.path("sys/block/sdc")).unwrap();
}

fn failed(tree: &mut Tree) {
    tree.write("sys/block/md0/md/dev-sdc/state", "faulty\n");
    tree.write("sys/block/md0/md/dev-sdc/slot", "none\n");
}

/// RAID 4/5/6 must then rebuild blocks that are read.
#[test]
fn a_member_is_missing() {
    for change in [removed, failed] {
        assert_eq!(after(RAID5, change), "md0: a member is missing");
        let mut tree = Tree::new(RAID5);
        change(&mut tree);
        let then = look(&tree, &tree.resolve(&[]).unwrap());
        tree.add(
            "disk sdd 8:48 2000000
            member md0 sdd slot=2 state=spare offset=2048 new_offset=2048 size=750000",
        );
        assert_eq!(
            differences(&then, &look(&tree, &then)).join("; "),
            "md0: sdd joined, no member is missing any more"
        );
    }
}

#[test]
fn a_lost_member_is_kept_until_its_slot_is_taken() {
    let of = |change: &dyn Fn(&mut Tree)| {
        let mut tree = Tree::new(RAID5);
        let then = tree.resolve(&[]).unwrap();
        change(&mut tree);
        let now = with_lost(&then, tree.resolve(&[]).unwrap(), |_| true);
        let mut members = now.arrays[0].members.clone();
        members.sort_by(|a, b| a.name.cmp(&b.name));
        let facts = |m: &Member| format!("{} {:?} {}", m.name, m.slot, m.state.join(","));
        members.iter().map(facts).collect::<Vec<_>>()
    };
    let whole = ["sda Some(0) in_sync", "sdb Some(1) in_sync"].map(String::from);
    let lost = [&whole[..], &["sdc Some(2) in_sync,faulty".to_owned()]].concat();
    assert_eq!(of(&removed), lost);
    assert_eq!(of(&failed), [&whole[..], &["sdc Some(2) in_sync,faulty".to_owned()]].concat());
    let replaced = |tree: &mut Tree, slot: &str| {
        removed(tree);
        tree.add(&format!(
            "disk sdd 8:48 2000000
            member md0 sdd slot={slot} state=spare offset=2048 new_offset=2048 size=750000"
        ));
    };
    assert_eq!(of(&|t| replaced(t, "none"))[2..], [&lost[2], "sdd None spare"]);
    assert_eq!(of(&|t| replaced(t, "2"))[2..], ["sdd Some(2) spare"]);
    // The disk was removed: a new disk may get its device number.
    let mut tree = Tree::new(RAID5);
    let then = tree.resolve(&[]).unwrap();
    removed(&mut tree);
    let now = with_lost(&then, tree.resolve(&[]).unwrap(), |m| m.name != "sdc");
    assert_eq!(now.arrays[0].members.len(), 2);
    // Re-added with another data offset.
    let elsewhere = of(&|t| {
        failed(t);
        t.write("sys/block/md0/md/dev-sdc/offset", "4096\n");
    });
    assert_eq!(elsewhere[2], "sdc None faulty");
}

#[test]
fn run_time_state_is_not_a_difference() {
    for (file, text) in [
        ("array_state", "active"),
        ("degraded", "1"),
        ("sync_action", "check"),
        ("sync_completed", "1 / 2"),
        ("dev-sda/state", "in_sync,write_mostly"),
        // The geometry of RAID 5 depends on the component size.
        ("dev-sdb/size", "740000"),
    ] {
        assert_eq!(written(file, text), "", "{file}");
    }
    let raid10 = RAID5.replace("raid5 layout=2", "raid10 layout=258");
    assert_eq!(after(&raid10, removed), "");
    assert_eq!(after(&raid10, failed), "");
    assert_eq!(
        after(RAID5, |t| t.write("sys/block/md0/md/array_state", "clear\n")),
        "",
        "a stopped array is shown as such"
    );
}

#[test]
fn members_and_devices_on_the_array() {
    assert_eq!(
        after(RAID5, |t| t.add(
            "disk sdd 8:48 2000000
            member md0 sdd slot=none state=spare offset=2048 size=750000"
        )),
        "md0: sdd joined"
    );
    assert_eq!(
        after(RAID5, |t| t.add("part md0p1 259:1 1000 disk=md0 number=1 start=8")),
        "md0: md0p1 appeared"
    );
    assert_eq!(
        after(RAID5, |t| t.add("mount 9:0 /other ext4 /dev/md0 rw")),
        "md0: md0 is now on /data",
        "a second mount of the same device"
    );
    let lv = format!(
        "{RAID5}
        dm dm-0 253:0 1000 name=vg-lv uuid=LVM-1 slaves=md0
        target 253:0 0 1000 linear 9:0 2048"
    );
    assert_eq!(
        after(&lv, |t| {
            t.write("sys/block/dm-0/size", "3000\n");
            t.add("target 253:0 1000 2000 linear 9:0 8192");
        }),
        "md0: dm-0 was moved or resized"
    );
    assert_eq!(
        after(&lv, |t| t.add("mount 253:0 /lv ext4 /dev/mapper/vg-lv rw")),
        "md0: dm-0 mounted on /lv"
    );
    let gone = |t: &mut Tree| std::fs::remove_dir_all(t.path("sys/block/dm-0")).unwrap();
    assert_eq!(after(&lv, gone), "md0: dm-0 was removed");
}

#[test]
fn arrays_join_stay_and_go() {
    let mut tree = raid0_of_12();
    let then = look(&tree, &tree.resolve(&[]).unwrap());
    tree.write("proc/self/mountinfo", "");
    let now = look(&tree, &then);
    assert_eq!(differences(&then, &now), ["md127: md127 unmounted from /srv"]);
    tree.add(
        "disk sdx 8:160 1000
        md md7 9:7 500 level=raid1 raid_disks=1 array_state=clean
        member md7 sdx slot=0 state=in_sync size=250
        mount 9:7 /seven ext4 /dev/md7 rw
        mount 254:0 /again ext4 /dev/vda rw",
    );
    let now = look(&tree, &then);
    assert_eq!(differences(&then, &now), ["md7: is now traced"], "vda does not join");
    // With targets, no other array is new.
    let named = resolve_again(&["md127".into()], &then, &tree.sys(), false).unwrap();
    assert_eq!(named.arrays.len(), 1);
    tree.write("sys/block/md127/md/array_state", "clear\n");
    let names = |t: &HostTopology| t.arrays.iter().map(|a| a.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&look(&tree, &now)), ["md7"]);
    assert_eq!(
        names(&resolve_again(&["md127".into()], &now, &tree.sys(), false).unwrap()),
        ["md7"],
        "a stopped target is not an error"
    );
}

#[test]
fn traced_disks_stay_unless_they_become_members() {
    let mut tree = Tree::new(
        "disk sda 8:0 2000
        mount 8:0 /a ext4 /dev/sda rw",
    );
    let then = look(&tree, &tree.resolve(&[]).unwrap());
    assert_eq!(then.arrays.len(), 1);
    tree.write("proc/self/mountinfo", "");
    assert_eq!(look(&tree, &then).arrays.len(), 1);
    tree.add(
        "md md7 9:7 1000 level=raid1 raid_disks=1 array_state=clean
        member md7 sda slot=0 state=in_sync size=500
        mount 9:7 /seven ext4 /dev/md7 rw",
    );
    let now = look(&tree, &then);
    assert_eq!(now.arrays.len(), 1);
    assert_eq!(now.arrays[0].name, "md7");
}

/// Swap space in use has its role; zram and swap files have none.
#[test]
fn swap_on_an_array_and_on_a_partition() {
    let tree = Tree::new(
        "disk sda 8:0 2000
        disk zram0 254:0 2000
        part sda1 8:1 600 disk=sda number=1 start=100
        md md1 9:1 1000 level=raid1 raid_disks=1 array_state=clean
        member md1 sda1 slot=0 state=in_sync size=500",
    );
    let targets = ["md1".to_owned()];
    let look = |tree: &Tree, targets: &[String]| {
        resolve_again(targets, &HostTopology::default(), &tree.sys(), false).unwrap()
    };
    let then = look(&tree, &targets);
    assert!(then.arrays[0].filesystems.is_empty());
    tree.write(
        "proc/swaps",
        "Filename Type Size Used Priority\n/dev/md1 partition 500 0 -2\n\
         /dev/zram0 partition 999 0 100\n/srv/swap file 999 0 -3\n",
    );
    let now = look(&tree, &targets);
    let [swap] = &now.arrays[0].filesystems[..] else { panic!("{:?}", now.arrays[0]) };
    assert_eq!((swap.name.as_str(), &swap.role), ("md1", &DeviceRole::Swap));
    assert_eq!(swap.segments[0].sectors, 1000);
    assert_eq!(differences(&then, &now), ["md1: md1 is swap"]);
    assert_eq!(differences(&now, &then), ["md1: md1 is no longer swap"]);
    // An array that holds swap is in use, a disk for it alone is not traced without its name.
    assert_eq!(look(&tree, &[]).arrays.len(), 1);
    assert_eq!(look(&tree, &["zram0".to_owned()]).arrays[0].filesystems.len(), 0);
}

/// Each device of an XFS has its role while it is mounted, and one line reports the mount.
#[test]
fn the_log_and_realtime_devices_of_an_xfs() {
    let mut tree = Tree::new(
        "disk sda 8:0 2000
        disk sdb 8:16 2000
        md md0 9:0 1000 level=raid1 raid_disks=1 array_state=clean
        member md0 sda slot=0 state=in_sync size=500
        md md1 9:1 1000 level=raid1 raid_disks=1 array_state=clean
        member md1 sdb slot=0 state=in_sync size=500",
    );
    let targets = ["md0".to_owned(), "md1".to_owned()];
    let then = resolve_again(&targets, &HostTopology::default(), &tree.sys(), false).unwrap();
    tree.add("mount 9:0 /srv xfs /dev/md0 rw,logdev=/dev/md1,noquota");
    let again = |targets: &[String]| {
        resolve_again(targets, &HostTopology::default(), &tree.sys(), false).unwrap()
    };
    let now = again(&targets);
    let main = MainDevice { name: "md0".into(), dev: Dev { major: 9, minor: 0 } };
    let log = &now.arrays[1].filesystems[0];
    assert_eq!((log.name.as_str(), &log.role), ("md1", &DeviceRole::Log(main)));
    assert_eq!(log.mounts, now.arrays[0].filesystems[0].mounts);
    assert_eq!(now.arrays[0].filesystems[0].role, DeviceRole::Main);
    assert_eq!(differences(&then, &now), ["md0: md0 mounted on /srv"]);
    assert_eq!(differences(&now, &then), ["md0: md0 unmounted from /srv"]);
    // Without the array of the filesystem, the log's array reports it.
    let (then, now) =
        (HostTopology { arrays: then.arrays[1..].to_vec(), ..then }, again(&targets[1..]));
    assert_eq!(differences(&then, &now), ["md1: md1 mounted on /srv"]);
    // Without targets, both arrays are traced.
    assert_eq!(tree.resolve(&[]).unwrap().arrays.len(), 2);
}
