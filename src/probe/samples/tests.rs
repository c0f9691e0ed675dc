use std::io::Error;

use super::{
    BUFFER, CpuSample, FRAMES, MAX_RECORD_BYTES, RawStack, Wire as _, buffer, explain, rt_sample,
};

fn decode(bytes: &[u8]) -> Option<CpuSample> {
    let mut samples = Vec::new();
    super::decode(bytes, &mut samples)?;
    samples.pop()
}

fn wire(frames: u16, mode: u16) -> Vec<u8> {
    let mut wire = rt_sample { cpu: 3, pid: 7, tgid: 6, frames, mode, ..Default::default() };
    wire.comm[..3].copy_from_slice(b"a;b");
    wire.bytes().to_vec()
}

#[test]
fn a_sample_has_all_its_frames() {
    let mut bytes = wire(2, super::KERNEL);
    bytes.extend(10u64.bytes());
    assert_eq!(decode(&bytes), None);
    bytes.extend(20u64.bytes());
    let sample = decode(&bytes).unwrap();
    assert_eq!(sample.stack, RawStack::Kernel(vec![10, 20]));
    assert_eq!((sample.cpu, sample.pid, sample.tgid), (3, 7, 6));
    assert_eq!(sample.comm, b"a;b");
    let user = decode(&wire(0, super::USER)).unwrap();
    assert_eq!(user.stack, RawStack::User);
    let none = decode(&wire(0, super::NO_STACK)).unwrap();
    assert_eq!(none.stack, RawStack::Unknown);
}

#[test]
fn malformed_samples_are_rejected() {
    let mut long = wire(FRAMES as u16 + 1, super::KERNEL);
    long.extend(vec![1; 8 * (FRAMES + 1)]);
    for bytes in [Vec::new(), vec![0; 8], long, wire(0, super::KERNEL), wire(0, 9)] {
        assert_eq!(decode(&bytes), None, "{bytes:?}");
    }
}

#[test]
fn the_buffer_holds_a_second() {
    assert_eq!(buffer(1, 99), *BUFFER.start());
    let many = buffer(64, 99);
    assert!((64 * 99 * MAX_RECORD_BYTES..2 * 64 * 99 * MAX_RECORD_BYTES).contains(&many));
    assert!(many.is_power_of_two());
    assert_eq!(buffer(usize::MAX, 99), *BUFFER.end());
}

#[test]
fn refusals_say_what_why_and_what_to_do() {
    let say = |errno, root, lockdown| {
        let e = Error::from_raw_os_error(errno);
        explain(&e, 99, root, Some("3"), lockdown, Some("50"))
    };
    let lines = [
        say(libc::EACCES, false, Some("none")),
        say(libc::EPERM, true, Some("confidentiality")),
        say(libc::EPERM, true, None),
        say(libc::ENOENT, true, None),
        say(libc::EINVAL, true, None),
        say(libc::EMFILE, true, None),
        say(libc::EIO, true, None),
    ];
    insta::assert_snapshot!(lines.join("\n"));
}
