//! The library exports every name of `symbols.txt`, and programs that link to it start.

#[path = "../../ibverbs/tests/common/mod.rs"]
mod common;
#[path = "../../ibverbs/build/table.rs"]
#[allow(dead_code, reason = "the writing half is the build script's")]
mod table;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use table::Table;

fn library() -> PathBuf {
    common::library("librdmacm.so")
}

fn table() -> Table {
    Table::parse(include_str!("../symbols.txt")).expect("the build script read it, too")
}

#[test]
fn the_library_exports_exactly_the_checked_in_names() {
    let Some(found) = common::versioned_names(&library()) else { return };
    let found: BTreeSet<String> = found.into_iter().map(|(name, _)| name).collect();
    let listed: BTreeSet<String> =
        table().exports.iter().map(|e| format!("{}@@{}", e.name, e.node)).collect();
    assert_eq!(found, listed);
}

#[test]
fn no_name_of_the_installed_library_is_missing() {
    let Some(original) = common::original("librdmacm.so.1") else { return };
    let Some(names) = common::versioned_names(&original) else { return };
    let listed: BTreeSet<String> =
        table().exports.iter().map(|e| format!("{}@@{}", e.name, e.node)).collect();
    let missing: Vec<String> =
        names.into_iter().map(|(name, _)| name).filter(|name| !listed.contains(name)).collect();
    assert_eq!(missing, [] as [&str; 0]);
}

#[test]
fn a_program_that_links_to_it_starts_and_is_told_that_it_cannot() {
    let folder = folder("rping");
    let mut command = Command::new("rping");
    command
        .args(["-s", "-C", "1"])
        .env("LD_LIBRARY_PATH", &folder)
        .env("LD_BIND_NOW", "1")
        .env("GLASSNIC_EXPLAIN", "1");
    let Some(output) = common::run(&mut command) else { return };
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(stderr.contains("rdma_create_event_channel is not implemented"), "{stderr}");
    assert!(!stderr.contains("version"), "{stderr}");
}

fn folder(test: &str) -> PathBuf {
    let folder = common::scratch(test);
    let link: &Path = &folder.join("librdmacm.so.1");
    std::os::unix::fs::symlink(library(), link).expect("a link in a new folder");
    folder
}
