//! The on-CPU profile of this machine's kernel, with a thread whose work is known.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs::File;
use std::io::Read as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::{Builder, Scope, ScopedJoinHandle};

use common::{SetOnDrop, root, skipped, until};
use raidtrace::analysis::alloc::Cpu;
use raidtrace::analysis::profile::Profile;
use raidtrace::session::cpus::CpuSampler;
use rustix::time::{ClockId, clock_gettime};

const HERTZ: u32 = 99;
/// Samples of the busy thread that are waited for.
const SAMPLES: u64 = 100;
const NAME: &str = "a;b <&>";

/// CPU time of this thread in seconds.
fn cpu_time() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Starts a thread that reads /dev/zero until `done` is set. Returns its id, and a handle that
/// returns the CPU time that it used.
fn burn<'scope>(
    threads: &'scope Scope<'scope, '_>,
    done: &'scope AtomicBool,
) -> (u32, ScopedJoinHandle<'scope, f64>) {
    let (sender, receiver) = channel();
    let work = move || {
        sender.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
        let mut zero = File::open("/dev/zero").unwrap();
        let mut buffer = vec![0; 4 << 20];
        while !done.load(Ordering::Relaxed) {
            zero.read_exact(&mut buffer).unwrap();
        }
        cpu_time()
    };
    let thread = Builder::new().name(NAME.into()).spawn_scoped(threads, work).unwrap();
    (receiver.recv().unwrap(), thread)
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
    let cpus = std::fs::read_to_string("/proc/stat").unwrap();
    let cpus = cpus.lines().filter(|l| l.starts_with("cpu")).count() as u64 - 1;
    let done = AtomicBool::new(false);
    let (tid, spent) = std::thread::scope(|threads| {
        let on_failure = SetOnDrop(&done);
        let (tid, thread) = burn(threads, &done);
        until("samples of the thread", || {
            let mut interval = Profile::default();
            all.drain(&mut interval).unwrap();
            profile.merge(&interval.take());
            storage.drain(&mut restricted).unwrap();
            let samples = |(pid, _, cpu): &(u32, Vec<u8>, Cpu)| *pid == tid && cpu.busy >= SAMPLES;
            let one_cpu = profile.cpus().values().map(|cpu| cpu.possible).max().unwrap_or(0);
            let all_cpus = cpus == 1 || profile.cpu().possible > one_cpu;
            profile.on_cpu().iter().any(samples) && all_cpus && restricted.cpu().busy > 0
        });
        drop(on_failure);
        (tid, thread.join().unwrap())
    });
    all.stop();
    storage.stop();
    all.drain(&mut profile).unwrap();
    storage.drain(&mut restricted).unwrap();
    println!("{:?} {:?}", profile.cpus(), all.notes());

    // A thread is not sampled more often than its CPU time allows. It may be sampled less often: a
    // virtual CPU that waits for a physical CPU misses samples (tools/bench profile).
    let threads = profile.on_cpu();
    let (_, comm, cpu) = threads.iter().find(|(pid, ..)| *pid == tid).unwrap();
    assert_eq!(comm, NAME.as_bytes());
    let share = cpu.busy as f64 / (spent * f64::from(HERTZ));
    println!("{} samples in {spent:.2} s: {share:.2} of the expected number", cpu.busy);
    assert!(cpu.busy >= SAMPLES && share < 1.2, "{share}");
    assert!(cpu.busy <= cpu.possible, "{cpu:?}");
    assert_eq!(cpu.allocator, 0);

    // Lost samples are busy samples of no thread. The buffer holds one second of samples, so
    // samples are lost if this process is stopped.
    let whole = profile.cpu();
    let listed: u64 = profile.on_cpu().iter().map(|(.., cpu)| cpu.busy).sum();
    assert_eq!(listed + profile.lost() + profile.unlisted(), whole.busy);
    assert_eq!((profile.other(), profile.unlisted()), (0, 0));
    let one = cpu.possible;
    assert!(whole.possible <= one * cpus && whole.possible >= one, "{whole:?} {one}");
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

    drawn(&profile);
}

/// The folded and graph outputs show the same profile.
fn drawn(profile: &Profile) {
    let mut folded = Vec::new();
    profile.write_folded(&mut folded).unwrap();
    let folded = String::from_utf8(folded).unwrap();
    let counts = folded.lines().map(|l| l.rsplit_once(' ').unwrap().1);
    let total: u64 = counts.map(|n| n.parse::<u64>().unwrap()).sum();
    assert_eq!(total, profile.cpu().busy - profile.lost());
    assert!(folded.lines().any(|l| l.starts_with("a:b <&>;")), "{folded}");

    let mut page = Vec::new();
    profile.write_page("CPU <all>\u{1b}", &mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let document = roxmltree::Document::parse_with_options(&page, options).unwrap();
    let titles = document.descendants().filter(|n| n.tag_name().name() == "title");
    let titles: Vec<&str> = titles.filter_map(|n| n.text()).collect();
    assert_eq!(titles[0], "CPU <all>\\x1b");
    assert!(titles.contains(&format!("all ({total} samples, 100 %)").as_str()), "{titles:?}");
    assert!(titles.iter().any(|t| t.starts_with("a:b <&> (")), "{titles:?}");
    let error = Profile::default().write_page("", &mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
}
