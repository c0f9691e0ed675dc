//! The on-CPU profile of this machine's kernel, with a thread whose work is known.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs::File;
use std::io::Read as _;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use common::{DEADLINE, root, skipped};
use raidtrace::analysis::profile::Profile;
use raidtrace::commands::alloc::tree::Tree;
use raidtrace::session::cpus::CpuSampler;
use rustix::time::{ClockId, clock_gettime};

const HERTZ: u32 = 99;
const NAME: &str = "a;b <&>";

/// CPU time of this thread in seconds.
fn cpu_time() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Starts a thread that reads /dev/zero for `seconds` of its own CPU time. Returns its id, a
/// channel with the CPU time that it used, and its handle.
fn burn(seconds: f64) -> (u32, Receiver<f64>, JoinHandle<()>) {
    let (tid_sender, tid_receiver) = channel();
    let (spent, done) = channel();
    let work = move || {
        tid_sender.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
        let mut zero = File::open("/dev/zero").unwrap();
        let mut buffer = vec![0; 4 << 20];
        let began = cpu_time();
        while cpu_time() - began < seconds {
            zero.read_exact(&mut buffer).unwrap();
        }
        spent.send(cpu_time()).unwrap();
    };
    let thread = Builder::new().name(NAME.into()).spawn(work).unwrap();
    (tid_receiver.recv().unwrap(), done, thread)
}

fn sampler(everything: bool) -> Option<CpuSampler> {
    match CpuSampler::start(HERTZ, everything) {
        Ok(sampler) => Some(sampler),
        Err(why) => {
            skipped(&why);
            assert_eq!(why.lines().count(), 1, "{why}");
            None
        }
    }
}

#[test]
fn samples_of_a_busy_thread_match_its_cpu_time() {
    if !root() {
        return;
    }
    let (Some(mut all), Some(mut storage)) = (sampler(true), sampler(false)) else {
        return;
    };
    let (mut profile, mut restricted) = (Profile::default(), Profile::default());
    let (tid, done, thread) = burn(1.5);
    let end = Instant::now() + DEADLINE;
    let spent = loop {
        std::thread::sleep(Duration::from_millis(100));
        let mut interval = Profile::default();
        all.drain(&mut interval).unwrap();
        profile.merge(&interval.take());
        storage.drain(&mut restricted).unwrap();
        match done.try_recv() {
            Ok(spent) => break spent,
            Err(TryRecvError::Empty) => assert!(Instant::now() < end),
            Err(e) => panic!("{e}"),
        }
    };
    thread.join().unwrap();
    all.stop();
    storage.stop();
    all.drain(&mut profile).unwrap();
    storage.drain(&mut restricted).unwrap();
    println!("{:?} {:?}", profile.cpus(), all.notes());

    // The thread's samples match its CPU time. A virtual CPU that waits for a physical CPU misses
    // some.
    let threads = profile.on_cpu();
    let (_, comm, cpu) = threads.iter().find(|(pid, ..)| *pid == tid).unwrap();
    assert_eq!(comm, NAME.as_bytes());
    let share = cpu.busy as f64 / (spent * f64::from(HERTZ));
    println!("{} samples in {spent:.2} s: {share:.2} of the expected number", cpu.busy);
    assert!((0.5..1.2).contains(&share), "{share}");
    assert!(cpu.busy <= cpu.possible, "{cpu:?}");
    assert_eq!(cpu.allocator, 0);

    // All CPUs are sampled at the same rate, busy or idle.
    let whole = profile.cpu();
    assert_eq!((profile.lost(), profile.other(), profile.unlisted()), (0, 0, 0));
    let cpus = std::fs::read_to_string("/proc/stat").unwrap();
    let cpus = cpus.lines().filter(|l| l.starts_with("cpu")).count() as u64 - 1;
    let one = cpu.possible;
    assert!(whole.possible <= one * cpus && whole.possible * 2 >= one * cpus, "{whole:?} {one}");
    let sum: u64 = profile.cpus().values().map(|c| c.busy).sum();
    assert_eq!(sum, whole.busy);

    // If the kernel's symbols are readable, most of the thread's stacks contain a read function.
    let named = all.named();
    assert_eq!(all.notes().is_empty(), named);
    let mut reads = 0;
    for (_, stack, n) in profile.stacks().filter(|(comm, ..)| *comm == NAME.as_bytes()) {
        let names = stack.names();
        assert!(names[0].starts_with('[') || names[0].starts_with("0x") || named, "{stack:?}");
        if names.iter().any(|f| f.contains("read")) {
            reads += n;
        }
    }
    println!("{reads} samples of the thread in a read function");
    assert!(!named || reads * 2 > cpu.busy, "{reads}");
    assert!(named || reads == 0);
    let thread_stacks = restricted.stacks().filter(|(comm, ..)| *comm == NAME.as_bytes());
    // Reading /dev/zero is not storage work. A stack of this thread is a storage stack only if an
    // interrupt that completes a disk request ran on top of it.
    let without_interrupt = thread_stacks.filter(|(_, stack, _)| {
        let mut names = stack.names().iter();
        let by_interrupt = names.any(|f| f.contains("irq") || f.contains("interrupt"));
        assert!(!named || by_interrupt, "{stack:?}");
        !by_interrupt
    });
    assert_eq!(without_interrupt.count() > 0, !named);
    assert!(restricted.cpu().busy > 0);

    drawn(&profile);
}

/// The folded, tree and graph outputs show the same profile.
fn drawn(profile: &Profile) {
    let mut folded = Vec::new();
    profile.write_folded(&mut folded).unwrap();
    let folded = String::from_utf8(folded).unwrap();
    let counts = folded.lines().map(|l| l.rsplit_once(' ').unwrap().1);
    let total: u64 = counts.map(|n| n.parse::<u64>().unwrap()).sum();
    assert_eq!((total, Tree::new(profile).total), (profile.cpu().busy, total));
    assert!(folded.lines().any(|l| l.starts_with("a:b <&>;")), "{folded}");

    let mut svg = Vec::new();
    profile.write_svg("CPU <all>\u{1b}", &mut svg).unwrap();
    let svg = String::from_utf8(svg).unwrap();
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let document = roxmltree::Document::parse_with_options(&svg, options).unwrap();
    assert_eq!(document.root_element().tag_name().name(), "svg");
    let titles = document.descendants().filter(|n| n.has_tag_name("title"));
    let titles: Vec<&str> = titles.filter_map(|n| n.text()).collect();
    let all = titles.iter().find(|t| t.starts_with("all (")).unwrap();
    assert_eq!(all.replace(',', ""), format!("all ({total} samples 100%)"));
    assert!(titles.iter().any(|t| t.starts_with("a:b <&> (")), "{titles:?}");
    let error = Profile::default().write_svg("", &mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
}
