//! Generates the vocabulary from `bpf/shared/origins.h`, compiles the BPF programs, links them into
//! objects and generates a skeleton for each object. Also compiles the pure functions of the BPF
//! programs natively, for tests.

use std::process::Command;
use std::{env, ffi::OsStr, fmt::Write as _, fs, path::Path, path::PathBuf};

use anyhow::{Context, Result, bail};
use libbpf_cargo::SkeletonBuilder;
use libbpf_rs::Linker;
use libbpf_rs::btf::types::{Array, Enum, Int, IntEncoding, Struct};
use libbpf_rs::btf::{Btf, BtfType};

fn main() -> Result<()> {
    println!("cargo:rerun-if-changed=bpf");
    identify()?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    vocabulary(Path::new("bpf/shared/origins.h"), &out.join("origins.rs"))?;
    native(&out);
    contract(&out)?;
    for (output, names) in [
        (
            "raidtrace",
            "maps generation lookup content stripe request_walk request issue md_submit \
             bio_complete bio_submit files tasks dirty bio_refused ext4 xfs journal record",
        ),
        ("raidtrace_profile", "profile"),
        ("raidtrace_alloc", "alloc alloc_groups alloc_kprobe"),
        (
            "raidtrace_slow",
            "slow_maps slow_operation slow_namespace slow_xfs slow_sleep slow_commit slow_lock \
             slow_io slow_async",
        ),
    ] {
        programs(output, names, &out)?;
    }
    Ok(())
}

/// Sets the target and the commit for `--version`. The commit is `RAIDTRACE_COMMIT` from the
/// environment, or git's HEAD. Debug builds omit the commit, so that a commit does not trigger a
/// rebuild.
fn identify() -> Result<()> {
    println!("cargo:rerun-if-env-changed=RAIDTRACE_COMMIT");
    println!("cargo:rustc-env=RAIDTRACE_TARGET={}", env::var("TARGET")?);
    let commit = env::var("RAIDTRACE_COMMIT")
        .ok()
        .or_else(|| {
            if env::var("PROFILE").as_deref() != Ok("release") {
                return Some("unknown (a debug build)".to_owned());
            }
            println!("cargo:rerun-if-changed=.git/logs/HEAD");
            let git = Command::new("git").args(["rev-parse", "HEAD"]).output().ok()?;
            let commit = String::from_utf8(git.stdout).ok()?.trim().to_owned();
            (!commit.is_empty()).then_some(commit)
        })
        .unwrap_or_else(|| "unknown".to_owned());
    println!("cargo:rustc-env=RAIDTRACE_COMMIT={commit}");
    Ok(())
}

/// Compiles each file in `names` (separated by spaces) to an object, links the objects into one,
/// and generates its skeleton `OUTPUT.skel.rs`.
fn programs(output: &str, names: &str, out: &Path) -> Result<()> {
    let linked = out.join(format!("{output}.bpf.o"));
    let mut linker = Linker::new(&linked)?;
    for name in names.split(' ') {
        let object = out.join(format!("{name}.bpf.o"));
        compile(name, &object)?;
        linker.add_file(&object)?;
    }
    linker.link()?;
    let skeleton = out.join(format!("{output}.skel.rs"));
    SkeletonBuilder::new()
        .obj(&linked)
        .reference_obj(true)
        .generate(&skeleton)
        .context("the skeleton")?;
    compress(&linked, &skeleton)
}

/// Compresses the object that the skeleton contains, which makes the binary 0.5 MB smaller.
fn compress(object: &Path, skeleton: &Path) -> Result<()> {
    let compressed = object.with_extension("o.zst");
    fs::write(&compressed, zstd::encode_all(&*fs::read(object)?, 19)?)?;
    let text = fs::read_to_string(skeleton)?;
    // The last item of the module.
    let (text, _) = text
        .split_once("#[unsafe(link_section = \".bpf.objs\")]")
        .context("libbpf-cargo embeds an object in another way than before")?;
    let data = format!(
        "static DATA: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(|| \
         {{zstd::decode_all(&include_bytes!({compressed:?})[..]).expect(\"compressed by \
         build.rs\")}});\n}}\n"
    );
    fs::write(skeleton, text.to_owned() + &data).context("the skeleton")
}

/// Writes `contract.rs`: the enumerators of `bpf/shared/` as constants and its structures as Rust
/// types. Both are read from the BTF that clang generates for `bpf/contract.bpf.c`.
fn contract(out: &Path) -> Result<()> {
    let object = out.join("contract.bpf.o");
    compile("contract", &object)?;
    let btf = Btf::from_path(&object).context("the BTF of bpf/contract.bpf.c")?;
    let mut rs = String::new();
    for enumeration in btf.type_by_kind::<Enum<'_>>() {
        for member in enumeration.iter() {
            let name = text(member.name)?;
            let short = name.strip_prefix("RT_").unwrap_or(name);
            // The BPF programs use enumerators as `__u32`.
            let value = member.value as u32;
            writeln!(rs, "pub const {short}: u32 = {value};")?;
        }
    }
    let structures = btf.type_by_kind::<Struct<'_>>().filter(|s| s.name().is_some());
    for structure in structures {
        let name = text(structure.name())?;
        // Deriving `Pod` fails to compile if a structure has implicit padding.
        writeln!(
            rs,
            "#[allow(non_camel_case_types)]\n#[repr(C)]\n#[derive(Clone, Copy, Debug, PartialEq, \
             Eq, \
             bytemuck::Pod, bytemuck::Zeroable)]\npub struct {name} {{"
        )?;
        for member in structure.iter() {
            let field = match text(member.name)? {
                "type" => "r#type",
                name => name,
            };
            let ty = btf.type_by_id(member.ty).context("a member's type")?;
            writeln!(rs, "pub {field}: {},", rust_type(ty)?)?;
        }
        writeln!(
            rs,
            "}}\nimpl Default for {name} {{ fn default() -> Self {{ bytemuck::Zeroable::zeroed() \
             }} }}"
        )?;
    }
    fs::write(out.join("contract.rs"), rs).context("contract.rs")
}

fn text(name: Option<&OsStr>) -> Result<&str> {
    name.and_then(OsStr::to_str).context("bpf/contract.bpf.c: a name is missing or not UTF-8")
}

/// The Rust type of a field: an integer, a structure, or an array of them.
fn rust_type(ty: BtfType<'_>) -> Result<String> {
    let ty = ty.skip_mods_and_typedefs();
    if let Ok(int) = Int::try_from(ty) {
        let sign = match int.encoding {
            IntEncoding::Signed => 'i',
            _ => 'u',
        };
        return Ok(format!("{sign}{}", int.bits));
    }
    if let Ok(array) = Array::try_from(ty) {
        let element = rust_type(array.contained_type())?;
        return Ok(format!("[{element}; {}]", array.capacity()));
    }
    match Struct::try_from(ty) {
        Ok(structure) => Ok(text(structure.name())?.to_owned()),
        Err(ty) => bail!("bpf/contract.bpf.c: a field of kind {:?}", ty.kind()),
    }
}

/// Compiles `bpf/NAME.bpf.c`.
fn compile(name: &str, object: &Path) -> Result<()> {
    SkeletonBuilder::new()
        .source(format!("bpf/{name}.bpf.c"))
        .obj(object)
        .clang_args([
            "-Wall",
            "-Wextra",
            "-Werror",
            "-Wno-unused-parameter",
            "-mcpu=v3",
            // Reproducible builds: keep paths of this machine out of the objects.
            &format!("-ffile-prefix-map={}=/raidtrace", env::var("CARGO_MANIFEST_DIR")?),
        ])
        .build()
        .with_context(|| format!("bpf/{name}.bpf.c"))
}

/// Compiles the arithmetic of the BPF programs as a static library. Only tests link it (`#[link]`),
/// so no other binary contains it.
fn native(out: &Path) {
    cc::Build::new()
        .file("bpf/test_native.c")
        .extra_warnings(true)
        .warnings_into_errors(true)
        .cargo_metadata(false)
        .compile("raidtrace_native");
    println!("cargo:rustc-link-search=native={}", out.display());
}

/// `X(4, BLOCK_BITMAP, block_bitmap, filesystem) \` → `["4", "BLOCK_BITMAP", "block_bitmap",
/// "filesystem"]`
fn macro_rows(text: &str, letter: char) -> Vec<Vec<String>> {
    text.lines()
        .filter_map(|line| {
            let body = line.trim().strip_prefix(letter)?.strip_prefix('(')?.split_once(')')?.0;
            let row: Vec<String> = body.split(',').map(|f| f.trim().to_owned()).collect();
            row[0].parse::<u8>().is_ok().then_some(row)
        })
        .collect()
}

fn camel(name: &str) -> String {
    name.split('_').map(|w| w[..1].to_uppercase() + &w[1..]).collect()
}

fn vocabulary(header: &Path, out: &Path) -> Result<()> {
    let text = fs::read_to_string(header).with_context(|| format!("{}", header.display()))?;
    let mut rs = String::new();
    for (letter, name, what) in [
        ('X', "Origin", "Filesystem structure or md activity that an IO belongs to."),
        ('Y', "Op", "Operation of a request."),
    ] {
        let rows = macro_rows(&text, letter);
        if rows.is_empty() || rows.iter().enumerate().any(|(i, r)| r[0] != i.to_string()) {
            bail!("{}: the numbers of {name} must be 0, 1, 2, ...", header.display());
        }
        let each = |f: &dyn Fn(&Vec<String>) -> String| rows.iter().map(f).collect::<String>();
        write!(
            rs,
            "/// {what}\n#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, \
             Hash)]\n#[repr(u8)]\npub enum {name} {{\n{}}}\nimpl {name} {{\n/// Every value, in \
             numeric order.\npub const ALL: [{name}; {}] = [{}];\n/// Value with this number; \
             `None` if there is none.\npub fn from_u8(n: u8) -> Option<Self> {{ \
             Self::ALL.get(usize::from(n)).copied() }}\n/// Name in JSON, recordings and on the \
             screen.\npub const fn name(self) -> &'static str {{ match self {{ {} }} }}\n",
            each(&|r| format!("/// `{}`\n{} = {},\n", r[2], camel(&r[2]), r[0])),
            rows.len(),
            each(&|r| format!("Self::{}, ", camel(&r[2]))),
            each(&|r| format!("Self::{} => \"{}\", ", camel(&r[2]), r[2])),
        )?;
        if name == "Origin" {
            write!(
                rs,
                "/// Layer that defines the origin.\npub const fn group(self) -> Group {{ match \
                 self {{ {} }} }}\n",
                each(&|r| format!("Self::{} => Group::{}, ", camel(&r[2]), camel(&r[3]))),
            )?;
        }
        write!(
            rs,
            "}}\nimpl std::str::FromStr for {name} {{\ntype Err = String;\nfn from_str(s: &str) \
             -> Result<Self, String> {{\nSelf::ALL.iter().copied().find(|v| v.name() == \
             s).ok_or_else(|| format!(\"no such {}: {{s}} (one of {{}})\", \
             Self::ALL.map(Self::name).join(\", \")))\n}}\n}}\n",
            name.to_lowercase(),
        )?;
    }
    fs::write(out, rs).with_context(|| format!("{}", out.display()))
}
