//! The library exports every name of `symbols.txt` in its version, and nothing else.

mod common;
#[path = "../build/table.rs"]
#[allow(dead_code, reason = "the writing half is the build script's")]
mod table;

use std::collections::BTreeSet;
use std::process::Command;
use table::{Table, Target};

fn table() -> Table {
    Table::parse(include_str!("../symbols.txt")).expect("the build script read it, too")
}

#[test]
fn the_library_exports_exactly_the_checked_in_names() {
    let Some(found) = common::versioned_names(&common::library("libibverbs.so")) else { return };
    let found: BTreeSet<(String, String)> = found.into_iter().collect();
    let listed: BTreeSet<(String, String)> = table()
        .exports
        .iter()
        .map(|export| {
            let at = if export.default { "@@" } else { "@" };
            let kind = if export.target == Target::Object { "OBJECT" } else { "FUNC" };
            (format!("{}{at}{}", export.name, export.node), kind.to_owned())
        })
        .collect();
    assert_eq!(
        listed.difference(&found).collect::<Vec<_>>(),
        [] as [&(String, String); 0],
        "listed, not exported"
    );
    assert_eq!(
        found.difference(&listed).collect::<Vec<_>>(),
        [] as [&(String, String); 0],
        "exported, not listed"
    );
}

/// Whatever a distribution's library exports, a program of that distribution may ask for.
#[test]
fn no_name_of_the_installed_library_is_missing() {
    let Some(original) = common::original("libibverbs.so.1") else { return };
    let Some(names) = common::versioned_names(&original) else { return };
    let exported: BTreeSet<String> =
        table().exports.iter().map(|export| format!("{}@{}", export.name, export.node)).collect();
    let missing: Vec<String> = names
        .into_iter()
        .map(|(name, _)| name.replace("@@", "@"))
        .filter(|name| !exported.contains(name))
        .collect();
    assert_eq!(missing, [] as [&str; 0]);
}

#[test]
fn the_linker_recorded_the_name_and_the_versions() {
    let library = common::library("libibverbs.so");
    let Some(dynamic) = common::text(Command::new("readelf").args(["-W", "-d"]).arg(&library)) else {
        return;
    };
    assert!(dynamic.contains("[libibverbs.so.1]"), "{dynamic}");
    assert!(dynamic.contains("NODELETE"), "{dynamic}");
    let Some(versions) = common::text(Command::new("readelf").args(["-W", "-V"]).arg(&library)) else {
        return;
    };
    let found: Vec<&str> = versions
        .lines()
        .filter_map(|line| line.split_once("  Name: ").map(|(_, rest)| rest))
        .filter(|name| name.starts_with("IBVERBS") || name.starts_with("GLASSNIC"))
        .collect();
    assert_eq!(found, table().nodes);
}

#[test]
fn a_table_that_is_not_understood_is_refused() {
    for (line, says) in [
        ("ibv_open_device IBVERBS_1.1", "no `@`"),
        ("ibv_open_device@@IBVERBS_1.1 kode", "unknown target"),
        ("ibv_open_device@@IBVERBS_1.1", "expected"),
    ] {
        let error = Table::parse(line).expect_err(line);
        assert!(error.contains("line 1") && error.contains(says), "{error}");
    }
}
