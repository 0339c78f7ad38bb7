//! `glassnic run`: a program, unmodified, on the NIC.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use glassnic_explain::both;
use glassnic_verbs::Words;
use glassnic_verbs::inspect::{KEEP_VARIABLE, RUN_VARIABLE, monotonic_ns};

use crate::{EXIT_USAGE, fail, fault, lang, libdir};

/// As a shell says it (POSIX.1, 2.8.2).
const EXIT_NOT_FOUND: u8 = 127;
const EXIT_NOT_EXECUTABLE: u8 = 126;

/// Replaces this process by the program, so that signals and the exit status need no passing on.
///
/// With `sysfs` it gets a view of the file system of its own first.
pub(crate) fn run(words: &[OsString], sysfs: bool) -> ExitCode {
    let Some((program, arguments)) = words.split_first() else {
        let why = lang()
            .pick("run needs a program; see glassnic run --help", "run 需要一个程序；见 glassnic run --help");
        return fail(why, EXIT_USAGE);
    };
    let libraries = match libdir::find() {
        Ok(dir) => dir,
        Err(why) => return fail(&why, EXIT_USAGE),
    };
    if let Err(why) = glassnic_verbs::profile::from_env() {
        return fail(&why.in_words(lang()), EXIT_USAGE);
    }
    let mut command = Command::new(program);
    command.args(arguments);
    prepare(&mut command, &libraries);
    if sysfs {
        if let Err(why) = glassnic_verbs::sysfs::enter() {
            return fail(&why.in_words(lang()), EXIT_USAGE);
        }
        command.env(glassnic_verbs::sysfs::VARIABLE, glassnic_verbs::sysfs::CLASSES);
    }
    let error = command.exec();
    let name = program.display();
    match error.kind() {
        ErrorKind::NotFound if is_script(program) => fail(
            &both!(lang(), "{name}: its interpreter is missing", "{name}：缺少它的解释器"),
            EXIT_NOT_EXECUTABLE,
        ),
        ErrorKind::NotFound => {
            fail(&both!(lang(), "{name}: no such program", "{name}：没有这个程序"), EXIT_NOT_FOUND)
        }
        _ => fail(&fault(name, &error), EXIT_NOT_EXECUTABLE),
    }
}

/// Sets what a program needs to run on GlassNIC.
pub(crate) fn prepare(command: &mut Command, libraries: &Path) {
    command.env("LD_LIBRARY_PATH", search_path(libraries, env::var_os("LD_LIBRARY_PATH").as_deref()));
    if env::var_os("GLASSNIC_EXPLAIN").is_none() {
        command.env("GLASSNIC_EXPLAIN", "1");
    }
}

/// A program that is going to run on GlassNIC.
///
/// # Errors
/// One line: there is no word, or this installation or the profile asked for is not whole.
pub(crate) fn command(words: &[OsString]) -> Result<(Command, PathBuf), String> {
    let (name, arguments) =
        words.split_first().ok_or_else(|| lang().pick("no program given", "没有给出程序"))?;
    let libraries = libdir::find()?;
    glassnic_verbs::profile::from_env().map_err(|error| error.in_words(lang()))?;
    let mut command = Command::new(name);
    command.args(arguments);
    Ok((command, libraries))
}

/// Sets also what it needs to be followed from outside. Gives the number by which its NICs are found, and those of what it
/// starts.
pub(crate) fn prepare_to_follow(command: &mut Command, libraries: &Path) -> u64 {
    prepare(command, libraries);
    let run = monotonic_ns();
    command.env(RUN_VARIABLE, run.to_string());
    if !keeps() {
        // What ends before we have looked can still be read, as long as we are there to look.
        command.env(KEEP_VARIABLE, std::process::id().to_string());
    }
    run
}

/// Whether the user wants to keep what NICs did.
pub(crate) fn keeps() -> bool {
    env::var_os(KEEP_VARIABLE).is_some_and(|value| value == "1")
}

/// Our folder first, then what the user had. An empty entry would mean the current folder (ld.so(8)),
/// so none is made.
fn search_path(libraries: &Path, inherited: Option<&OsStr>) -> OsString {
    let mut path = libraries.as_os_str().to_owned();
    if let Some(inherited) = inherited.filter(|inherited| !inherited.is_empty()) {
        path.push(":");
        path.push(inherited);
    }
    path
}

/// A file that is there, and yet not found by execve(2), lacks its interpreter.
fn is_script(program: &OsStr) -> bool {
    program.as_encoded_bytes().contains(&b'/') && Path::new(program).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_search_path_stays_behind_ours() {
        let ours = Path::new("/opt/glassnic");
        assert_eq!(search_path(ours, None), "/opt/glassnic");
        assert_eq!(search_path(ours, Some(OsStr::new(""))), "/opt/glassnic");
        assert_eq!(search_path(ours, Some(OsStr::new("/a:/b"))), "/opt/glassnic:/a:/b");
    }
}
