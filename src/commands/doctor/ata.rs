//! IDENTIFY data of ATA disks, from libata's transport class in sysfs
//! (drivers/ata/libata-transport.c, `show_ata_dev_id`: 256 words of four hexadecimal digits).

use std::path::Path;

use crate::machine::Sys;

/// Word with the bits for SCT commands (0) and for SCT error recovery control (3): ACS-3,
/// 7.12.7.92.
const WORD: usize = 206;
const SCT: u16 = 1;
const RECOVERY_CONTROL: u16 = 1 << 3;

/// True if a disk supports error recovery control, which limits the time spent on a bad sector.
/// `None` if the kernel does not show it, as behind a SAS controller or a USB bridge.
pub fn recovery_control(sys: &Sys, disk: &str) -> Option<bool> {
    // .../ata3/host2/target2:0:0/2:0:0:0
    let device = std::fs::canonicalize(sys.path(format!("/sys/block/{disk}/device"))).ok()?;
    let address = device.file_name()?.to_str()?;
    let port = device.ancestors().find(|dir| number(dir).is_some())?;
    let port_number = number(port)?;
    let mut parts = address.split(':').skip(1);
    let (channel, target): (u32, u32) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    // Each disk behind a port multiplier has its own link (ata_tlink_add(), ata_tdev_add()).
    let multiplied = format!("link{port_number}.{channel}");
    let dir = if port.join(&multiplied).is_dir() {
        let name = format!("dev{port_number}.{channel}.0");
        format!("{multiplied}/{name}/ata_device/{name}")
    } else {
        let name = format!("dev{port_number}.{target}");
        format!("link{port_number}/{name}/ata_device/{name}")
    };
    let id = std::fs::read_to_string(port.join(dir).join("id")).ok()?;
    let word = u16::from_str_radix(id.split_whitespace().nth(WORD)?, 16).ok()?;
    // All ones if the read failed.
    (word != u16::MAX).then_some(word & SCT != 0 && word & RECOVERY_CONTROL != 0)
}

/// 3 of `ata3`.
fn number(dir: &Path) -> Option<u32> {
    dir.file_name()?.to_str()?.strip_prefix("ata")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::recovery_control;
    use crate::machine::tests::tree::Tree;

    fn tree(link: &str, dev: &str, address: &str, word: &str) -> Tree {
        let mut words = vec!["0040"; 256];
        words[206] = word;
        let id: Vec<String> = words.chunks(8).map(|w| w.join(" ")).collect();
        let scsi = format!("sys/devices/ata3/host2/target2/{address}");
        let tree = Tree::new(&format!(
            "disk sda 8:0 1000
            link sys/block/sda/device ../../../{scsi}"
        ));
        tree.write(format!("{scsi}/timeout"), "30\n");
        let file = format!("sys/devices/ata3/{link}/{dev}/ata_device/{dev}/id");
        tree.write(file, format!("{}\n", id.join("\n")));
        tree
    }

    #[test]
    fn word_206_of_the_identify_data() {
        for (word, has) in [
            ("003d", Some(true)),
            ("0035", Some(false)),
            ("0008", Some(false)),
            ("0000", Some(false)),
            ("ffff", None),
            ("zzzz", None),
        ] {
            let direct = tree("link3", "dev3.0", "2:0:0:0", word);
            assert_eq!(recovery_control(&direct.sys(), "sda"), has, "{word}");
        }
        let multiplied = tree("link3.2", "dev3.2.0", "2:2:0:0", "003d");
        assert_eq!(recovery_control(&multiplied.sys(), "sda"), Some(true));
        // IDENTIFY data of another disk.
        let other = tree("link3", "dev3.1", "2:0:0:0", "003d");
        assert_eq!(recovery_control(&other.sys(), "sda"), None);
        assert_eq!(recovery_control(&other.sys(), "sdb"), None);
    }
}
