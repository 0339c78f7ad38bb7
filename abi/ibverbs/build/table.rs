//! Reads a symbol table (`symbols.txt`) and writes what the linker and the compiler need of it.
//!
//! Shared by the build scripts of both libraries and by their tests.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

/// One exported name in one version node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Export {
    /// The name that C programs use.
    pub(crate) name: String,
    /// The version node, such as `IBVERBS_1.1`.
    pub(crate) node: String,
    /// Whether a new program links against this version (`@@`) or only old ones ask for it (`@`).
    pub(crate) default: bool,
    /// What stands behind it.
    pub(crate) target: Target,
}

/// What stands behind an exported name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A function of the crate, as a path below the crate's root.
    Function(String),
    /// One zero byte of data.
    Object,
    /// A call that is not implemented: one of the words that the head of the table explains.
    Unsupported(&'static str),
}

/// The whole table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    /// Version nodes, oldest first.
    pub(crate) nodes: Vec<String>,
    /// Exported names, in the order of the file.
    pub(crate) exports: Vec<Export>,
}

/// The words for calls that are not implemented, and the return type of each.
const UNSUPPORTED: [(&str, &str); 6] = [
    ("code", "core::ffi::c_int"),
    ("minus_one", "core::ffi::c_int"),
    ("minus_one_wide", "isize"),
    ("null", "*mut core::ffi::c_void"),
    ("quiet", "()"),
    ("zero", "u64"),
];

impl Table {
    /// Reads a table.
    ///
    /// # Errors
    /// The number of the line that it cannot read, and why.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut table = Self::default();
        for (index, line) in text.lines().enumerate() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                [] => {}
                [first, ..] if first.starts_with('#') => {}
                ["node", name] => table.nodes.push((*name).to_owned()),
                [versioned, target] => {
                    table
                        .exports
                        .push(export(versioned, target).map_err(|e| format!("line {}: {e}", index + 1))?);
                }
                _ => return Err(format!("line {}: expected `name@@NODE target`", index + 1)),
            }
        }
        Ok(table)
    }

    /// The version script that declares the nodes and nothing else.
    ///
    /// rustc passes an (anonymous) script of its own, which would win over names listed here; the names come from the `.symver`
    /// directives instead. Each node needs a pattern, and the linker refuses a plain name that it does not find, so the pattern is a
    /// wildcard that matches nothing. Which node follows which is not said: lld would not record it, and ld.so does not ask.
    pub(crate) fn version_script(&self) -> String {
        let mut script = String::new();
        for node in &self.nodes {
            let pattern = node.replace('.', "_").to_lowercase();
            let _ = writeln!(script, "{node} {{ global: __no_such_name_{pattern}*; }};");
        }
        script
    }

    /// The trampolines and the functions behind calls that are not implemented, as Rust source.
    ///
    /// A `.symver` directive names a symbol of its own assembly unit, and a Rust function may land in another one; so each exported
    /// name is a jump defined beside its directive. Paths that matter (post, poll) do not pass here: C reaches them by `context->ops`.
    pub(crate) fn rust_source(&self, jump: &str) -> String {
        let mut source = String::new();
        let mut written = BTreeSet::new();
        for export in &self.exports {
            let label = format!("__export_{}_{}", export.name, export.node.replace('.', "_"));
            let at = if export.default { "@@" } else { "@" };
            let symver = format!("{label}, {}{at}{}", export.name, export.node);
            let target = match &export.target {
                Target::Object => {
                    let _ = writeln!(
                        source,
                        "core::arch::global_asm!(\".pushsection .bss.{label},\\\"aw\\\",%nobits\", \".globl {label}\", \
                         \".type {label},%object\", \"{label}: .zero 1\", \".size {label}, 1\", \".symver {symver}\", \".popsection\");"
                    );
                    continue;
                }
                Target::Function(path) => format!("crate::{path}"),
                Target::Unsupported(word) => {
                    let function = unsupported_name(export, word);
                    if written.insert(function.clone()) {
                        source.push_str(&unsupported_function(&function, &export.name, word));
                    }
                    function
                }
            };
            let _ = writeln!(
                source,
                "core::arch::global_asm!(\".pushsection .text.{label},\\\"ax\\\",%progbits\", \".globl {label}\", \
                 \".type {label},%function\", \"{label}: {jump} {{f}}\", \".size {label}, .-{label}\", \".symver {symver}\", \
                 \".popsection\", f = sym {target});"
            );
        }
        source
    }
}

fn export(versioned: &str, target: &str) -> Result<Export, String> {
    let (name, rest) = versioned.split_once('@').ok_or("the name has no `@`")?;
    let default = rest.starts_with('@');
    let target = match target {
        "object" => Target::Object,
        path if path.contains("::") => Target::Function(path.to_owned()),
        word => Target::Unsupported(
            UNSUPPORTED
                .iter()
                .map(|(known, _)| *known)
                .find(|known| *known == word)
                .ok_or("an unknown target")?,
        ),
    };
    Ok(Export { name: name.to_owned(), node: rest.trim_start_matches('@').to_owned(), default, target })
}

fn unsupported_name(export: &Export, word: &str) -> String {
    format!("unsupported_{word}_{}", export.name)
}

fn unsupported_function(function: &str, name: &str, word: &str) -> String {
    let returns = UNSUPPORTED.iter().find(|(known, _)| *known == word).map_or("()", |(_, returns)| returns);
    format!("extern \"C\" fn {function}() -> {returns} {{ crate::unsupported::{word}(\"{name}\") }}\n")
}

/// All that a build script does: reads `symbols.txt` of the crate, writes the sources, and tells the linker.
///
/// # Errors
/// What cannot be read, written or understood.
pub(crate) fn build(soname: &str) -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=symbols.txt");
    let table = Table::parse(&fs::read_to_string("symbols.txt")?)?;
    let out = env::var("OUT_DIR")?;
    let script = Path::new(&out).join("versions.map");
    fs::write(&script, table.version_script())?;
    fs::write(Path::new(&out).join("exports.rs"), table.rust_source(jump()?))?;
    println!("cargo:rustc-cdylib-link-arg=-Wl,--version-script={}", script.display());
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{soname}");
    // Background threads run code of the library: a dlclose by the program must not unmap it.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    Ok(())
}

/// The instruction that jumps to another function and leaves every argument where it is.
fn jump() -> Result<&'static str, String> {
    match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") => Ok("jmp"),
        Ok("aarch64") => Ok("b"),
        other => Err(format!("no trampoline is written for {other:?}")),
    }
}
