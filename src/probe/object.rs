//! Loads and attaches the programs of a plan. A program that the kernel refuses is left out if the
//! plan permits it.

use std::os::fd::{AsFd, AsRawFd as _};

use anyhow::{Context as _, Error, Result};
use libbpf_rs::libbpf_sys::{bpf_prog_get_info_by_fd, bpf_prog_info};
use libbpf_rs::skel::{OpenSkel, Skel as _, SkelBuilder};
use libbpf_rs::{Link, Object, PrintLevel, Program};

use super::btf::custom;
use super::log::{keep, loader_error, refusal, short};
use crate::machine::privileges::raised;

/// A plan of programs.
pub(super) trait Planned {
    /// Names of the programs, in the order in which they are attached.
    fn names(&self) -> Vec<&'static str>;

    /// Drops a program that the kernel refused for the reason `why`. False if it must not be
    /// dropped.
    fn without(&mut self, program: &str, why: &str) -> bool;

    /// The program to drop if the kernel's error names none.
    fn last_optional(&self) -> Option<&'static str> {
        None
    }
}

/// Why the programs of a plan do not run.
pub(super) enum PlanError {
    /// The kernel refused to load a program, which libbpf's messages name, or a map.
    Load(Error),
    /// The kernel refused to attach this program.
    Attach(&'static str, Error),
    /// No program is the cause.
    Other(Error),
}

/// Calls `load` until the kernel accepts the programs of the plan.
///
/// # Errors
/// The kernel refused a program that the plan does not drop, or a map; or [`PlanError::Other`].
pub(super) fn accepted<P: Planned, T>(
    plan: &mut P,
    load: impl Fn(&P) -> Result<T, PlanError>,
) -> Result<T> {
    loop {
        let (refused, why, error) = match load(plan) {
            Ok(loaded) => return Ok(loaded),
            Err(PlanError::Other(error)) => return Err(error),
            Err(PlanError::Attach(program, error)) => {
                (Some(program), short(&format!("{error:#}")), error)
            }
            Err(PlanError::Load(error)) => {
                let why = loader_error();
                let mut names = plan.names().into_iter();
                let refused = names.find(|p| why.contains(&format!("'{p}'")));
                (refused, why, error)
            }
        };
        let mut candidates = refused.into_iter().chain(plan.last_optional());
        if !candidates.any(|program| plan.without(program, &short(&why))) {
            return Err(error).context(refusal(&why));
        }
    }
}

/// Opens a BPF object. It borrows memory that is never freed, which avoids a self-referential
/// struct.
pub(super) fn open<B: SkelBuilder<'static>>(mut builder: B) -> Result<B::Output> {
    if let Some(types) = custom() {
        builder.object_builder_mut().btf_custom_path(types)?;
    }
    let storage = Box::leak(Box::new_uninit());
    builder.open(storage).context("opening the BPF object")
}

/// Error for an object without the section of its settings.
pub(super) const NO_SETTINGS: &str =
    "the BPF object has no settings: it was not built by this project's build.rs";

/// Loads these programs of an opened object, and no others. Logs their numbers of verified
/// instructions (0 before 5.16) and sizes of machine code.
pub(super) fn load<O: OpenSkel<'static>>(mut open: O, names: &[&'static str]) -> Result<O::Output> {
    for mut program in open.open_object_mut().progs_mut() {
        let wanted = names.iter().any(|name| program.name() == *name);
        program.set_autoload(wanted);
    }
    let loaded = raised(|| open.load()).context("loading the BPF object")?;
    for (name, program) in programs(loaded.object(), names) {
        if let Some(info) = program_info(&program) {
            let (verified, bytes) = (info.verified_insns, info.jited_prog_len);
            let line = format!("{name}: {verified} instructions verified, {bytes} bytes");
            keep(PrintLevel::Info, line);
        }
    }
    Ok(loaded)
}

/// Attaches a program.
pub(super) fn attach(object: &Object, name: &'static str) -> Result<(&'static str, Link)> {
    let program = object
        .progs_mut()
        .find(|p| p.name() == name)
        .context("the BPF object has no such program on this architecture")?;
    Ok((name, raised(|| program.attach())?))
}

/// These programs of an object, with their names.
pub(super) fn programs<'a>(
    object: &'a Object,
    names: &'a [&'static str],
) -> impl Iterator<Item = (&'static str, Program<'a>)> {
    object.progs().filter_map(|program| {
        let name = names.iter().find(|name| program.name() == **name)?;
        Some((*name, program))
    })
}

/// The kernel's facts and statistics of a loaded program.
pub(super) fn program_info(program: &impl AsFd) -> Option<bpf_prog_info> {
    let mut info = bpf_prog_info::default();
    let mut len = std::mem::size_of_val(&info) as u32;
    // SAFETY: `info` is zeroed, which requests no arrays, and `len` is the size of `info`.
    let err = unsafe {
        bpf_prog_get_info_by_fd(program.as_fd().as_raw_fd(), &raw mut info, &raw mut len)
    };
    (err == 0).then_some(info)
}
