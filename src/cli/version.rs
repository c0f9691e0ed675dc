//! `raidtrace --version -v`: details of the binary for bug reports.

use std::ffi::CStr;

/// True for `--version` with `-v`, in any order and in short or long form. Checked before clap,
/// which would print the short version as soon as it parses `--version`.
pub fn is_asked<S: AsRef<str>>(arguments: &[S]) -> bool {
    let has = |forms: &[&str]| arguments.iter().any(|a| forms.contains(&a.as_ref()));
    let known = ["-V", "--version", "-v", "--verbose", "-vV", "-Vv"];
    arguments.iter().all(|a| known.contains(&a.as_ref()))
        && has(&["-V", "--version", "-vV", "-Vv"])
        && has(&["-v", "--verbose", "-vV", "-Vv"])
}

/// Version, commit, target, libbpf and features, one per line.
pub fn text() -> String {
    // SAFETY: libbpf returns a constant C string.
    let libbpf = unsafe { CStr::from_ptr(libbpf_rs::libbpf_sys::libbpf_version_string()) };
    format!(
        "raidtrace {}\ncommit: {}\ntarget: {}\nlibbpf: {}\nfeatures: {}",
        env!("CARGO_PKG_VERSION"),
        env!("RAIDTRACE_COMMIT"),
        env!("RAIDTRACE_TARGET"),
        libbpf.to_string_lossy(),
        features(),
    )
}

fn features() -> &'static str {
    match (cfg!(feature = "object-store"), cfg!(feature = "export")) {
        (true, _) => "export, object-store",
        (false, true) => "export",
        (false, false) => "none",
    }
}

#[cfg(test)]
mod tests {
    use super::is_asked;

    #[test]
    fn requires_exactly_version_and_verbose() {
        assert!(is_asked(&["--version", "-v"]) && is_asked(&["-vV"]));
        assert!(!is_asked(&["--version"]) && !is_asked(&["-v"]));
        assert!(!is_asked(&["top", "-v", "-V"]) && !is_asked::<&str>(&[]));
    }
}
