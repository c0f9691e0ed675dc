//! Optional output files of `alloc`: recording, folded stacks, flame graph.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::args::AllocArgs;
use crate::analysis::profile::Profile;
use crate::machine::output::Destination;

/// Checks the optional outputs: recording, folded stacks, flame graph.
///
/// # Errors
/// Two outputs have the same path, or a file exists and --force is missing.
pub fn outputs(args: &AllocArgs) -> Result<[Option<Out>; 3]> {
    let outputs = [&args.record, &args.folded, &args.flame];
    let mut names: Vec<_> = outputs.into_iter().flatten().collect();
    names.sort();
    if names.windows(2).any(|w| w[0] == w[1]) {
        bail!("--record, --folded and --flame must name different files");
    }
    let open = |path: &Option<PathBuf>| {
        let path = path.as_deref();
        path.map(|path| Out::new(path, args.force)).transpose()
    };
    let [record, folded, flame] = outputs.map(open);
    Ok([record?, folded?, flame?])
}

pub struct Out {
    pub destination: Destination,
    /// Path for messages.
    pub name: String,
}

impl Out {
    fn new(path: &Path, force: bool) -> Result<Self> {
        Ok(Self {
            destination: Destination::beside_stdout(path, force)?,
            name: path.display().to_string(),
        })
    }

    /// Creates the file and writes its content.
    fn write(self, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
        let written = self.destination.open().and_then(|out| out.write(content));
        written.with_context(|| format!("writing {}", self.name))
    }
}

/// Writes the folded stacks and the flame graph.
///
/// # Errors
/// A file cannot be written.
pub fn write_stacks(profile: &Profile, folded: Option<Out>, flame: Option<Out>) -> Result<()> {
    if profile.stacks().next().is_none() && profile.other() == 0 {
        for out in folded.iter().chain(&flame) {
            let _ = writeln!(
                io::stderr(),
                "raidtrace: note: {} was not written: no sample was in ext4, jbd2, md or the \
                 block layer (--all keeps other stacks too)",
                out.name
            );
        }
        return Ok(());
    }
    if let Some(folded) = folded {
        folded.write(|mut out| profile.write_folded(&mut out))?;
    }
    if let Some(flame) = flame {
        let title = "raidtrace alloc: kernel stacks";
        flame.write(|mut out| profile.write_page(title, &mut out))?;
    }
    Ok(())
}
