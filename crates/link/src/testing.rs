//! Folders of their own for tests, and child processes that play a part and can be killed.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory path that nobody else uses; removed at the end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let parent = if Path::new("/dev/shm").exists() { "/dev/shm" } else { "/tmp" };
        Self(PathBuf::from(format!("{parent}/glassnic-test-{}-{number}", std::process::id())))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Names of the files in it, sorted.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const ROLE: &str = "GLASSNIC_TEST_ROLE";

/// Another run of this test binary, in which one test plays a part. Killed at the end.
pub(crate) struct Actor {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Actor {
    /// Run the test `test` (its full path) with [`role`] set.
    pub(crate) fn start(test: &str, role: &str) -> Self {
        Self::run(Command::new(std::env::current_exe().unwrap()), test, role)
    }

    /// As [`Actor::start`], as root of a network namespace of its own.
    ///
    /// # Panics
    /// Where this system lets the caller make none: a test that could not run has not passed.
    pub(crate) fn start_in_namespace(test: &str, role: &str) -> Self {
        // A user needs a user namespace first; root may have to do without, where the kernel has none.
        let ways: [&[&str]; 2] = [&["--user", "--map-root-user", "--net"], &["--net"]];
        let tried = ways.map(|way| (way, Command::new("unshare").args(way).arg("true").output()));
        let works = |(_, output): &&(_, std::io::Result<std::process::Output>)| {
            output.as_ref().is_ok_and(|output| output.status.success())
        };
        let Some((way, _)) = tried.iter().find(works) else {
            panic!("{test} as {role} needs a network namespace of its own (unshare(1)): {tried:?}");
        };
        let mut command = Command::new("unshare");
        command.args(*way).arg(std::env::current_exe().unwrap());
        Self::run(command, test, role)
    }

    fn run(mut command: Command, test: &str, role: &str) -> Self {
        let mut child = command
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .stdout(Stdio::piped())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// The next line that it says with [`say`].
    pub(crate) fn hear(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.lines.read_line(&mut line).unwrap(), 0, "the child ended without a word");
            // The test harness talks too, and does not end its line.
            if let Some((_, said)) = line.split_once("SAY ") {
                return said.trim().to_owned();
            }
        }
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// kill -9, and wait.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The part that this process plays, if it is an [`Actor`].
pub(crate) fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// Tell the test that started us.
pub(crate) fn say(what: impl std::fmt::Display) {
    println!("SAY {what}");
}

/// Run `ip` with these arguments, in the namespace of this process.
pub(crate) fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().unwrap();
    assert!(status.success(), "ip {arguments}");
}

/// Wait to be killed, or for the test that started us to end.
pub(crate) fn wait_for_the_end() {
    let _ = std::io::stdin().read_line(&mut String::new());
}
