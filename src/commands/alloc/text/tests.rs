use super::{COLUMNS, write};
use crate::analysis::alloc::{AllocSnapshot, FigureSource};
use crate::analysis::alloc::{figures, fixture, fold};
use crate::ui::text::{is_hidden, width};

fn text(snapshot: &AllocSnapshot) -> String {
    let mut out = Vec::new();
    write(&mut out, snapshot).unwrap();
    let text = String::from_utf8(out).unwrap();
    let odd = |c: char| (c.is_control() && c != '\n') || is_hidden(c);
    assert!(!text.contains(odd), "{text:?}");
    for line in text.lines() {
        // Commands are not wrapped.
        let is_command = line.starts_with("      ") && line.contains(" -");
        assert!(width(line) <= COLUMNS || is_command, "{line}");
        assert_eq!(line, line.trim_end(), "{line:?}");
    }
    text
}

#[test]
fn intervals() {
    insta::assert_snapshot!("healthy", text(&fixture::healthy()));
    insta::assert_snapshot!("linear", text(&fixture::linear()));
    insta::assert_snapshot!("livelock", text(&fixture::livelock()));
    insta::assert_snapshot!("cold", text(&fixture::cold()));
    insta::assert_snapshot!("degraded", text(&fixture::degraded()));
    insta::assert_snapshot!("empty", text(&fixture::empty()));
    insta::assert_snapshot!("huge", text(&fixture::huge()));
    let mut none = fixture::empty();
    none.filesystems.clear();
    (none.cpu, none.sources) = (None, Default::default());
    insta::assert_snapshot!("none", text(&none));
}

#[test]
fn uncounted_figures_are_not_zero() {
    let mut s = fixture::empty();
    for figure in [figures::REQUESTS, figures::LATENCY, figures::DISCARDS] {
        s.sources.insert(figure, FigureSource::None);
    }
    let quiet = text(&s);
    assert!(
        quiet.contains("md3 on /srv: allocations are not counted (see the notes)\n"),
        "{quiet}"
    );
    assert!(!quiet.contains("nothing"), "{quiet}");
    // Other figures are still shown.
    s.filesystems[0].counts.preallocated = 7;
    let some = text(&s);
    assert!(some.contains("  allocations   not known here\n"), "{some}");
    assert!(some.contains("  preallocated  7/s served from preallocated space\n"), "{some}");
    assert!(!some.contains("given back"), "{some}");
}

#[test]
fn counts_of_ext4_and_the_hook_are_both_shown() {
    let words = |half| {
        let text = text(&fixture::counted_twice(half));
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let both = "mb_stats ext4 itself counts 9,163,644 groups considered, the hook 9,163,644";
    assert!(words(false).contains(both), "{}", words(false));
    let both = "counts 4,581,822 groups considered, the hook 9,163,644: more than 20 % apart; the \
                hook's count is shown";
    assert!(words(true).contains(both), "{}", words(true));
    assert!(!words(false).contains("apart"), "{}", words(false));
    assert!(!text(&fixture::linear()).contains("mb_stats"));
}

#[test]
fn free_extents_of_an_idle_filesystem() {
    let mut s = fixture::empty();
    s.filesystems[0].fragmentation = fixture::linear().filesystems[0].fragmentation.clone();
    let quiet = text(&s);
    assert!(quiet.contains("nothing was allocated"), "{quiet}");
    assert!(quiet.contains("\n  free extents  order"), "{quiet}");
}

#[test]
fn each_filesystem_has_its_own_source_of_free_extents() {
    let mut s = fixture::linear();
    s.filesystems.extend(fixture::healthy().filesystems);
    for source in [FigureSource::MbStructs, FigureSource::MbGroups] {
        s.sources.insert(figures::FRAGMENTATION, source);
        let text = text(&s);
        let whole = text.find("largest free extent; 705 groups have none");
        let in_memory = text.find("groups in memory, by their largest");
        assert!(whole.is_some() && whole < in_memory, "{text}");
        assert_eq!(text.matches("groups in memory").count(), 1, "{text}");
    }
}

#[test]
fn a_long_interval_has_the_same_rates() {
    let one = fixture::healthy();
    let mut sum = one.clone();
    fold::add(&mut sum, &one);
    let figures = |s: &AllocSnapshot| {
        let text = text(s);
        let lines = text.lines().filter(|l| l.contains("allocations"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(figures(&sum), figures(&one));
}

#[test]
fn cpu_line_mentions_other_filesystems_and_hooks() {
    let mut s = fixture::healthy();
    assert!(!text(&s).contains("other mounted"));
    s.others = 2;
    let cpu = s.cpu.as_mut().unwrap();
    cpu.hooks = 9;
    let text = text(&s).replace("\n                ", " ");
    assert!(
        text.contains(
            "includes 2 other mounted ext4 filesystems: samples do not identify the filesystem"
        ),
        "{text}"
    );
    assert!(text.contains("plus 0.09 in hooks (tracing)"), "{text}");
}

#[test]
fn many_quick_allocations_are_reported() {
    let mut s = fixture::healthy();
    let c = &mut s.filesystems[0].counts;
    c.nanoseconds = 800_000_000;
    c.latency = fixture::hist(&[(15, 50_000)]);
    c.given = 50_000;
    let text = text(&s).replace("\n  ", " ");
    assert!(
        text.contains(
            "nothing stands out: 50.0k/s given keep 0.8 tasks in the allocator at a time, 16µs \
             each"
        ),
        "{text}"
    );
}
