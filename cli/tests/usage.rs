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
