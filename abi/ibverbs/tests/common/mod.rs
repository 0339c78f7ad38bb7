//! What the tests of the finished library share.

#![allow(dead_code, reason = "each test uses its part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The library that cargo built beside the running test.
pub(crate) fn library(file: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    let deps = test.parent().expect("a test lies in a folder");
    let library = deps.join(file);
    assert!(library.exists(), "{} was not built", library.display());
    library
}

/// A folder of this test's own that holds `libibverbs.so.1`, for `LD_LIBRARY_PATH`.
pub(crate) fn library_folder(test: &str) -> PathBuf {
    let folder = scratch(test);
    std::os::unix::fs::symlink(library("libibverbs.so"), folder.join("libibverbs.so.1"))
        .expect("a link in a new folder");
    folder
}

/// An empty folder of this test's own.
pub(crate) fn scratch(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder in cargo's own");
    folder
}

/// Runs a command to its end, or gives `None` where the program is not installed.
pub(crate) fn run(command: &mut Command) -> Option<Output> {
    match command.output() {
        Ok(output) => Some(output),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: {command:?} is not installed");
            None
        }
        Err(error) => panic!("{command:?}: {error}"),
    }
}

/// What a command prints; it must succeed.
pub(crate) fn text(command: &mut Command) -> Option<String> {
    let output = run(command)?;
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The versioned names that a library defines, as `name@@NODE` or `name@NODE`, with the type of each.
pub(crate) fn versioned_names(library: &Path) -> Option<Vec<(String, String)>> {
    let table = text(Command::new("readelf").args(["-W", "--dyn-syms"]).arg(library))?;
    let names = table.lines().filter_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        match columns.as_slice() {
            [_, _, _, kind, _, _, section, name, ..] if !["UND", "ABS", "Ndx"].contains(section) => {
                Some(((*name).to_owned(), (*kind).to_owned()))
            }
            _ => None,
        }
    });
    Some(names.collect())
}

/// The library of the distribution, to compare with.
pub(crate) fn original(file: &str) -> Option<PathBuf> {
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let found = folders.iter().map(|folder| Path::new(folder).join(file)).find(|path| path.exists());
    if found.is_none() {
        eprintln!("skipped: no {file} is installed");
    }
    found
}
