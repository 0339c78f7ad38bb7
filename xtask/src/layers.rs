//! `cargo xtask layers`: dependencies go one way.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::cargo;

/// One room of the house: its rank and what kind of code it may hold.
pub(crate) struct Room {
    /// The cargo package.
    pub(crate) package: &'static str,
    /// Its folder below the workspace root.
    pub(crate) folder: &'static str,
    /// A room may depend on rooms of lower rank only.
    rank: u8,
    /// Pure: no clock, socket, thread or unsafe code, and no crate that brings them.
    pub(crate) pure: bool,
}

const fn pure(rank: u8, package: &'static str, folder: &'static str) -> Room {
    Room { package, folder, rank, pure: true }
}

const fn outer(rank: u8, package: &'static str, folder: &'static str) -> Room {
    Room { package, folder, rank, pure: false }
}

/// All rooms, lowest first. A new member of the workspace needs a line here.
pub(crate) const ROOMS: &[Room] = &[
    pure(0, "glassnic-wire", "crates/wire"),
    pure(1, "glassnic-cm", "crates/cm"),
    pure(1, "glassnic-events", "crates/events"),
    pure(2, "glassnic-capture", "crates/capture"),
    pure(2, "glassnic-explain", "crates/explain"),
    pure(2, "glassnic-transport", "crates/transport"),
    pure(3, "glassnic-nic", "crates/nic"),
    pure(4, "glassnic-sim", "crates/sim"),
    outer(0, "glassnic-ring", "crates/ring"),
    outer(3, "glassnic-link", "crates/link"),
    outer(4, "glassnic-host", "crates/host"),
    outer(5, "glassnic-verbs", "crates/verbs"),
    outer(6, "glassnic-inspect", "crates/inspect"),
    outer(6, "glassnic-ibverbs", "abi/ibverbs"),
    outer(7, "glassnic-rdmacm", "abi/rdmacm"),
    outer(7, "glassnic-cli", "cli"),
    outer(7, "glassnic-bench", "bench"),
    outer(8, "glassnic-e2e", "e2e"),
    outer(8, "xtask", "xtask"),
];

/// Crates that bring system calls, sockets, threads or an async runtime.
const SYSTEM_CRATES: &[&str] =
    &["libc", "memmap2", "mio", "nix", "quinn-udp", "rustix", "signal-hook", "socket2", "tokio"];

/// Checks the workspace.
///
/// # Errors
/// When an edge goes up, a pure room reaches a system crate, or a member has no rank. The error
/// names each edge and the rule.
pub(crate) fn run() -> Result<()> {
    let metadata = cargo::metadata(true)?;
    let mut faults = Vec::new();
    for edge in workspace_edges(&metadata)? {
        faults.extend(judge(&edge.from, &edge.to));
    }
    faults.extend(unknown_members(&metadata)?);
    faults.extend(impure_reach(&metadata)?);
    if faults.is_empty() {
        return Ok(());
    }
    bail!("dependencies must go one way (see ARCHITECTURE.md):\n  {}", faults.join("\n  "))
}

struct Edge {
    from: String,
    to: String,
}

fn room(package: &str) -> Option<&'static Room> {
    ROOMS.iter().find(|room| room.package == package)
}

/// The fault of one dependency between two rooms, if it has one. Development dependencies count
/// too: a room that needs an upper one for its tests has its tests in the wrong place.
fn judge(from: &str, to: &str) -> Option<String> {
    let (user, used) = (room(from)?, room(to)?);
    if used.rank >= user.rank {
        return Some(format!(
            "{from} -> {to}: upward, rank {} may not use rank {} (only lower ranks)",
            user.rank, used.rank
        ));
    }
    // The rings hold plain memory operations: pure rooms have no business there either.
    (user.pure && !used.pure).then(|| format!("{from} -> {to}: a pure room may use pure rooms only"))
}

fn packages(metadata: &Value) -> Result<&Vec<Value>> {
    metadata["packages"].as_array().context("cargo metadata lists no packages")
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Direct dependencies of the workspace's members, of every kind, optional ones included.
fn workspace_edges(metadata: &Value) -> Result<Vec<Edge>> {
    let mut edges = Vec::new();
    for package in packages(metadata)?.iter().filter(|package| package["source"].is_null()) {
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            edges.push(Edge { from: text(&package["name"]).into(), to: text(&dependency["name"]).into() });
        }
    }
    Ok(edges)
}

fn unknown_members(metadata: &Value) -> Result<Vec<String>> {
    let members = packages(metadata)?.iter().filter(|package| package["source"].is_null());
    let misplaced = members.filter(|package| {
        room(text(&package["name"])).is_none_or(|room| {
            !text(&package["manifest_path"]).ends_with(&format!("{}/Cargo.toml", room.folder))
        })
    });
    Ok(misplaced
        .map(|package| {
            format!("{} ({}): no room of that name and folder", package["name"], package["manifest_path"])
        })
        .collect())
}

/// System crates that a pure room reaches over normal dependencies, however long the way.
fn impure_reach(metadata: &Value) -> Result<Vec<String>> {
    let names: BTreeMap<&str, &str> =
        packages(metadata)?.iter().map(|package| (text(&package["id"]), text(&package["name"]))).collect();
    let nodes = metadata["resolve"]["nodes"].as_array().context("cargo metadata resolved nothing")?;
    let graph: BTreeMap<&str, Vec<&str>> =
        nodes.iter().map(|node| (text(&node["id"]), normal_dependencies(node))).collect();
    let mut faults = Vec::new();
    for (id, name) in &names {
        if !room(name).is_some_and(|room| room.pure) {
            continue;
        }
        for way in ways_to_system_crates(id, &graph, &names) {
            faults.push(format!("{way}: a pure room may not reach a system crate"));
        }
    }
    Ok(faults)
}

fn normal_dependencies(node: &Value) -> Vec<&str> {
    let dependencies = node["deps"].as_array().into_iter().flatten();
    dependencies
        .filter(|dependency| {
            dependency["dep_kinds"].as_array().into_iter().flatten().any(|kind| kind["kind"].is_null())
        })
        .map(|dependency| text(&dependency["pkg"]))
        .collect()
}

/// Depth-first walk; each system crate is reported once, with the way to it.
fn ways_to_system_crates(
    start: &str,
    graph: &BTreeMap<&str, Vec<&str>>,
    names: &BTreeMap<&str, &str>,
) -> Vec<String> {
    let mut seen = vec![start];
    let mut stack = vec![(start, names[start].to_owned())];
    let mut ways = Vec::new();
    while let Some((id, way)) = stack.pop() {
        for &next in graph.get(id).into_iter().flatten() {
            if seen.contains(&next) {
                continue;
            }
            seen.push(next);
            let name = names.get(next).copied().unwrap_or_default();
            let way = format!("{way} -> {name}");
            if SYSTEM_CRATES.contains(&name) {
                ways.push(way);
            } else {
                stack.push((next, way));
            }
        }
    }
    ways
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_upward_edge_is_named_with_its_rule() {
        let fault = judge("glassnic-transport", "glassnic-nic").unwrap();
        assert_eq!(
            fault,
            "glassnic-transport -> glassnic-nic: upward, rank 2 may not use rank 3 (only lower ranks)"
        );
        assert_eq!(judge("glassnic-nic", "glassnic-transport"), None);
        assert!(judge("glassnic-explain", "glassnic-transport").is_some(), "same rank");
    }

    #[test]
    fn a_pure_room_uses_pure_rooms_only() {
        assert!(judge("glassnic-nic", "glassnic-ring").unwrap().contains("pure"));
        assert_eq!(judge("glassnic-host", "glassnic-ring"), None);
    }

    #[test]
    fn a_system_crate_is_found_at_the_end_of_a_long_way() {
        let kinds = json!([{ "kind": null }]);
        let metadata = json!({
            "packages": [
                { "id": "w", "name": "glassnic-wire", "source": null },
                { "id": "a", "name": "innocent", "source": "registry" },
                { "id": "l", "name": "libc", "source": "registry" },
            ],
            "resolve": { "nodes": [
                { "id": "w", "deps": [{ "pkg": "a", "dep_kinds": kinds }] },
                { "id": "a", "deps": [{ "pkg": "l", "dep_kinds": kinds }] },
                { "id": "l", "deps": [] },
            ]},
        });
        let faults = impure_reach(&metadata).unwrap();
        assert_eq!(faults, ["glassnic-wire -> innocent -> libc: a pure room may not reach a system crate"]);
    }

    #[test]
    fn development_dependencies_may_bring_system_crates() {
        let metadata = json!({
            "packages": [
                { "id": "w", "name": "glassnic-wire", "source": null },
                { "id": "l", "name": "libc", "source": "registry" },
            ],
            "resolve": { "nodes": [
                { "id": "w", "deps": [{ "pkg": "l", "dep_kinds": [{ "kind": "dev" }] }] },
            ]},
        });
        assert!(impure_reach(&metadata).unwrap().is_empty());
    }

    #[test]
    fn a_member_without_a_room_is_a_fault() {
        let metadata = json!({ "packages": [
            { "id": "x", "name": "glassnic-attic", "source": null, "manifest_path": "/w/attic/Cargo.toml" },
            { "id": "w", "name": "glassnic-wire", "source": null, "manifest_path": "/w/crates/wire/Cargo.toml" },
        ]});
        let faults = unknown_members(&metadata).unwrap();
        assert_eq!(faults.len(), 1);
        assert!(faults[0].contains("glassnic-attic"));
    }
}
