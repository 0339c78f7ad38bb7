//! What the compiler does not check: file length, left-overs, where unsafe and clocks may stand, tests that a page names.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::cargo;
use crate::layers::ROOMS;

/// Lines a file may have, its tests aside.
const LINES_MAX: usize = 600;

/// Text that has no place in a committed source file. Written in halves: this file is checked too.
const LEFT_OVERS: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("dbg", "!("),
    concat!("/wo", "rk/"),
];

/// What a pure room may not name: clocks, sockets, threads, files, maps of random order.
const IMPURE: &[&str] = &[
    "HashMap",
    "HashSet",
    "Instant::now",
    "SystemTime",
    "std::env",
    "std::fs",
    "std::net::Udp",
    "std::net::Tcp",
    "thread::",
];

/// Folders and files where unsafe code may stand, by how their path below the root begins.
const UNSAFE_HOMES: &[&str] = &[
    "abi/",
    "bench/src/sys",
    "crates/host/src/sys",
    "crates/host/tests/",
    "crates/link/src/sys",
    "crates/ring/",
];

/// Checks every Rust file of the workspace.
///
/// # Errors
/// When a rule is broken; the error lists file, line and rule.
pub(crate) fn run() -> Result<()> {
    let mut faults = Vec::new();
    for room in ROOMS {
        let folder = cargo::root().join(room.folder);
        if room.pure {
            faults.extend(check_forbids_unsafe(&folder)?);
        }
        for path in rust_files(&folder)? {
            let text =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let name = path.strip_prefix(cargo::root()).unwrap_or(&path).display().to_string();
            faults.extend(check_file(&name, &text, room.pure));
        }
    }
    faults.extend(crate::faults::check()?);
    if faults.is_empty() {
        return Ok(());
    }
    bail!("{} fault(s):\n  {}", faults.len(), faults.join("\n  "))
}

fn check_forbids_unsafe(folder: &Path) -> Result<Option<String>> {
    let path = folder.join("src/lib.rs");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let forbids = text.lines().any(|line| line.trim() == "#![forbid(unsafe_code)]");
    Ok((!forbids).then(|| format!("{}: a pure room must say #![forbid(unsafe_code)]", path.display())))
}

fn check_file(name: &str, text: &str, pure: bool) -> Vec<String> {
    let is_test = name.contains("/tests/") || name.ends_with("/tests.rs") || name.ends_with("/loom_tests.rs");
    let code_lines = if is_test { 0 } else { lines_before_tests(text) };
    let mut faults = Vec::new();
    if code_lines > LINES_MAX {
        faults.push(format!("{name}: {code_lines} lines without tests, at most {LINES_MAX}"));
    }
    let lines: Vec<&str> = text.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        let mut fault = |rule: String| faults.push(format!("{name}:{}: {rule}", index + 1));
        for word in LEFT_OVERS.iter().filter(|word| line.contains(**word)) {
            fault(format!("left-over `{word}`"));
        }
        if names_an_issue(line) {
            fault("a number of an issue says nothing to the reader: give the reason itself".into());
        }
        let code = line.split("//").next().unwrap_or_default();
        if pure && index < code_lines {
            for word in IMPURE.iter().filter(|word| code.contains(**word)) {
                fault(format!("`{word}` in a pure room"));
            }
        }
        if opens_unsafe(code) {
            if !UNSAFE_HOMES.iter().any(|home| name.starts_with(home)) {
                fault(format!("unsafe code outside of {}", UNSAFE_HOMES.join(", ")));
            }
            if !has_safety_reason(&lines, index) {
                fault("unsafe without a SAFETY reason above it".into());
            }
        }
    }
    faults
}

/// Lines up to the first `#[cfg(test)]` that opens a module.
fn lines_before_tests(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let opens_tests = |pair: &[&str]| pair[0].starts_with("#[cfg(test)]") && pair[1].starts_with("mod ");
    lines.windows(2).position(opens_tests).unwrap_or(lines.len())
}

/// The word, and a number after it.
fn names_an_issue(line: &str) -> bool {
    let lower = line.to_ascii_lowercase();
    lower.match_indices("issue ").any(|(at, word)| {
        let rest = lower[at + word.len()..].trim_start_matches('#');
        rest.starts_with(|digit: char| digit.is_ascii_digit())
    })
}

/// An unsafe block or impl opens in this line, code only. `unsafe fn` and `unsafe extern` declare; their
/// contract stands in their documentation.
fn opens_unsafe(code: &str) -> bool {
    ["unsafe {", "unsafe impl"].iter().any(|opening| {
        code.match_indices(opening).any(|(at, _)| {
            let before = code[..at].chars().next_back();
            // Not the tail of a longer word, nor inside a string.
            before.is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != '"')
        })
    })
}

/// A comment with `SAFETY:` in the same line, or in the block of comments and of the beginning of
/// the same statement above it.
fn has_safety_reason(lines: &[&str], index: usize) -> bool {
    if lines[index].contains("SAFETY:") {
        return true;
    }
    let above = lines[..index].iter().rev().take(12).map(|line| line.trim());
    above.take_while(|line| !line.is_empty() && !ends_statement(line)).any(|line| line.contains("SAFETY:"))
}

fn ends_statement(line: &str) -> bool {
    !line.starts_with("//") && (line.ends_with(';') || line.ends_with('}'))
}

fn rust_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(name: &str, text: &str) -> Vec<String> {
        check_file(name, text, true)
    }

    #[test]
    fn a_long_file_is_a_fault_but_long_tests_are_not() {
        let long = "x\n".repeat(LINES_MAX + 1);
        assert_eq!(faults("cli/src/main.rs", &long).len(), 1);
        assert!(faults("cli/tests/all.rs", &long).is_empty());
        assert!(faults("crates/nic/src/loom_tests.rs", &long).is_empty());
        let tested = format!("x\n#[cfg(test)]\nmod tests {{\n{long}}}\n");
        assert!(faults("cli/src/main.rs", &tested).is_empty());
    }

    #[test]
    fn left_overs_are_found() {
        let line = format!("// {}: later\n", concat!("TO", "DO"));
        assert_eq!(faults("a.rs", &line), [format!("a.rs:1: left-over `{}`", concat!("TO", "DO"))]);
        assert_eq!(faults("a.rs", concat!("// see issue", " #7\n")).len(), 1);
        assert!(faults("a.rs", "// at issue here\n").is_empty());
    }

    #[test]
    fn unsafe_needs_a_home_and_a_reason() {
        let bare = concat!("let x = un", "safe { *p };\n");
        assert_eq!(faults("crates/ring/src/lib.rs", bare).len(), 1);
        assert_eq!(faults("crates/nic/src/lib.rs", bare).len(), 2);
        let reasoned = "// SAFETY: p points into the mapping.\nlet x = unsafe { *p };\n";
        assert!(faults("crates/ring/src/lib.rs", reasoned).is_empty());
        let broken_line = "// SAFETY: as above.\nlet x: u32 =\n    unsafe { *p };\n";
        assert!(faults("crates/ring/src/lib.rs", broken_line).is_empty());
        let stale = "// SAFETY: another one.\nlet y = 1;\nlet x = unsafe { *p };\n";
        assert_eq!(faults("crates/ring/src/lib.rs", stale).len(), 1);
    }

    #[test]
    fn clocks_are_for_the_outside() {
        let text = "fn f() { let t = Instant::now(); }\n";
        assert_eq!(check_file("crates/nic/src/a.rs", text, true).len(), 1);
        assert!(check_file("crates/host/src/a.rs", text, false).is_empty());
        let in_comment = "// no Instant::now() here\n";
        assert!(check_file("crates/nic/src/a.rs", in_comment, true).is_empty());
    }
}
