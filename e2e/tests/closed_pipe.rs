//! What the command does when nobody reads it any more: it ends, quietly, and so do the programs that it runs.

use std::path::PathBuf;

use glassnic_e2e::process::{Finished, Program};
use glassnic_e2e::{product, slot};

/// Runs a line of bash with `glassnic` on the search path and processes that find each other in a folder of their own.
fn bash(folder: &str, line: &str) -> (Finished, PathBuf) {
    let folder = product::scratch().join(folder);
    let bin = product::prefix().join("bin").display().to_string();
    let script = format!("PATH={bin}:$PATH; set -o pipefail; {line}; echo \"status ${{PIPESTATUS[0]}}\" >&2");
    let directory = folder.display().to_string();
    let run = Program::plain(["bash", "-c", &script]).env("GLASSNIC_DIR", &directory);
    (run.env("GLASSNIC_LANG", "en").run(), folder)
}

/// A folder's segments: what NICs that are open, were kept, or crashed have left there.
fn segments(folder: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with("nic-")).collect()
}

#[test]
fn a_demonstration_that_nobody_watches_ends_with_its_programs() {
    let _slot = slot::take();
    let (run, folder) = bash("unwatched", "glassnic demo | head -1");
    assert_eq!(run.stderr, "status 0\n", "{run}");
    assert_eq!(run.stdout.lines().count(), 1, "{run}");
    assert!(run.stdout.starts_with("A server and a client"), "{run}");
    assert_eq!(segments(&folder), Vec::<String>::new());
    let directory = format!("GLASSNIC_DIR={}", folder.display());
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let environment = std::fs::read(process.path().join("environ")).unwrap_or_default();
        let is_ours = environment.split(|byte| *byte == 0).any(|word| word == directory.as_bytes());
        assert!(!is_ours, "{} still runs", process.path().display());
    }
}

/// The reader has gone before the first word.
#[test]
fn no_print_panics_when_its_reader_has_gone() {
    let silent = [
        ("profiles", 0),
        ("profiles mlx5", 0),
        ("devices", 0),
        ("devices --json", 0),
        ("libdir", 0),
        ("ps", 0),
        ("ps --watch", 0),
        ("qp ls --json", 0),
        ("doctor", 0),
        ("draw --dot", 0),
        ("--help", 0),
        ("--version", 0),
        ("trace -- true", 0),
        ("capture -o captured.pcapng -- true 2>&1", 0),
        ("bogus 2>&1", 2),
        ("run 2>&1", 2),
        // It was to become the program already, which a closed pipe ends by SIGPIPE.
        ("run /no/such/program 2>&1", 128 + 13),
    ];
    for (words, status) in silent {
        let (run, _) = bash("unread", &format!("{{ sleep 0.2; exec glassnic {words}; }} | true"));
        assert_eq!(run.stderr, format!("status {status}\n"), "{words}: {run}");
    }
}

#[test]
fn a_long_listing_ends_with_its_reader() {
    let frame = "0000 00 11 22 33 44 55 00 11 22 33 44 56 08 00 45 00\n0010 00 5c 00 01 00 00 40 11 77 cb c0 a8 01 01 c0 a8\n\
                 0020 01 02 04 00 00 00 00 48 00 00 00 00 00 00 00 00\n0030 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n\
                 0040 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n0050 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n\
                 0060 00 00 00 00\n";
    let file = product::scratch().join("long.hex");
    // More than a pipe holds.
    std::fs::write(&file, frame.repeat(2000)).unwrap();
    for json in ["", "--json"] {
        let (run, _) = bash("listing", &format!("glassnic decode {} {json} | head -1", file.display()));
        assert_eq!((run.stdout.lines().count(), run.stderr.as_str()), (1, "status 0\n"), "{run}");
    }
}

#[test]
fn a_disk_that_is_full_is_an_error() {
    for words in ["profiles", "devices", "libdir", "draw --dot", "doctor", "ps"] {
        let (run, _) = bash("full", &format!("glassnic {words} > /dev/full"));
        let said = "glassnic: standard output: No space left on device (os error 28)\nstatus 2\n";
        assert_eq!(run.stderr, said, "{words}");
    }
}
