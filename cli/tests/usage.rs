//! What the command answers to right and wrong use.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output};

/// A folder that passes for the libraries' one. No program of these tests uses verbs.
fn library_folder(test: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("libibverbs.so.1"), "").unwrap();
    dir
}

fn glassnic(test: &str, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_glassnic"));
    command.env("GLASSNIC_LIBDIR", library_folder(test)).env_remove("GLASSNIC_EXPLAIN");
    command.env_remove("LD_LIBRARY_PATH").args(words).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn wrong_use_is_one_line_and_status_2() {
    for words in [&[][..], &["bogus"], &["run"], &["run", "--"], &["libdir", "too", "much"], &["--bogus"]] {
        let output = glassnic("wrong_use", words);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{words:?}: {text}");
        assert!(text.starts_with("glassnic: "), "{words:?}: {text}");
        assert!(output.stdout.is_empty());
    }
}

/// `glassnic devices` on devices that the test chooses.
fn devices(list: &str, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_glassnic"));
    command.env("GLASSNIC_DEVICES", list).env_remove("GLASSNIC_LINK");
    command.arg("devices").args(words).output().unwrap()
}

#[test]
fn the_devices_are_shown_with_their_reasons() {
    let output = devices("glass0=lo", &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("glass0 on lo: GLASSNIC_DEVICES says so\n"), "{text}");
    let gid =
        text.lines().find(|line| line.contains("::ffff:127.0.0.1")).expect("loopback's address as a GID");
    assert!(gid.contains("RoCE v2  IPv4 address 127.0.0.1 of lo;"), "{gid}");
    assert!(output.status.success() && output.stderr.is_empty());
}

#[test]
fn json_has_the_devices_in_the_order_of_the_list() {
    let output = devices("b=lo,a=lo", &["--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let list = json["devices"].as_array().unwrap();
    let names: Vec<_> = list.iter().map(|device| device["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["b", "a"]);
    assert_eq!(list[1]["index"], 1);
    assert_eq!(list[0]["interface"], "lo");
    let port = &list[0]["port"];
    let mtu = port["interface_mtu"].as_u64().unwrap();
    assert_eq!((port["max_mtu"].as_u64(), port["active_mtu"].as_u64() <= Some(mtu)), (Some(4096), true));
    let gids = list[0]["gids"].as_array().unwrap();
    let mapped = gids.iter().find(|gid| gid["address"] == "127.0.0.1").unwrap();
    assert_eq!((&mapped["kind"], &mapped["type"]), (&"ipv4_mapped".into(), &"RoCE v2".into()));
}

#[test]
fn devices_that_cannot_be_are_one_line_and_status_2() {
    let cases = [
        ("glass0=none0", "stands on interface none0, which does not exist"),
        ("glass0", "GLASSNIC_DEVICES: \"glass0\" is not of the form device=interface"),
        ("a=lo,a=lo", "device a is named twice"),
    ];
    for (list, why) in cases {
        let output = devices(list, &[]);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{list}: {text}");
        assert!(text.lines().count() == 1 && text.contains(why), "{list}: {text}");
        assert!(output.stdout.is_empty(), "{list}");
    }
}

#[test]
fn a_program_gets_the_libraries_and_explanations() {
    let script = "echo $LD_LIBRARY_PATH $GLASSNIC_EXPLAIN; echo $1";
    let output = glassnic("environment", &["run", "--", "sh", "-c", script, "sh", "--help"]);
    let dir = library_folder("environment");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{} 1\n--help\n", dir.display()));
}

#[test]
fn the_exit_status_and_a_fatal_signal_are_the_programs_own() {
    assert_eq!(glassnic("status", &["run", "sh", "-c", "exit 7"]).status.code(), Some(7));
    assert_eq!(glassnic("status", &["run", "sh", "-c", "kill -15 $$"]).status.signal(), Some(15));
}

#[test]
fn a_program_that_cannot_run_ends_as_in_a_shell() {
    let absent = glassnic("absent", &["run", "no-such-program-here"]);
    assert_eq!(absent.status.code(), Some(127));
    assert_eq!(stderr(&absent), "glassnic: no-such-program-here: no such program\n");
    assert_eq!(glassnic("absent", &["run", "/etc/passwd"]).status.code(), Some(126));
}

#[test]
fn a_folder_without_the_library_is_refused() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_glassnic"));
    let output = command.env("GLASSNIC_LIBDIR", "/proc").args(["run", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(stderr(&output), "glassnic: GLASSNIC_LIBDIR is /proc, which has no libibverbs.so.1\n");
}

#[test]
fn the_profiles_are_listed_and_printed_to_be_copied() {
    let listed = String::from_utf8(glassnic("profiles", &["profiles"]).stdout).unwrap();
    let names: Vec<_> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["default", "lagging", "mlx5", "irdma", "bnxt", "efa", "rxe"]);
    let file = glassnic("profiles", &["profiles", "irdma"]).stdout;
    let copy = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("mine.toml");
    fs::write(&copy, file).unwrap();
    assert!(glassnic("profiles", &["profiles", copy.to_str().unwrap()]).status.success());
}

#[test]
fn a_profile_that_is_none_is_one_line_and_status_2_before_the_program_starts() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_glassnic"));
    command.env("GLASSNIC_LIBDIR", library_folder("profile")).env("GLASSNIC_PROFILE", "irmda");
    let output = command.args(["run", "--", "sh", "-c", "echo started"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    assert!(text.starts_with("glassnic: GLASSNIC_PROFILE: irmda is no profile; use default, "), "{text}");
    assert!(text.lines().count() == 1 && output.stdout.is_empty(), "{text}");
}
