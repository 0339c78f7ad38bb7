//! A guest with Linux's own soft-RoCE (`rdma_rxe`), under qemu: the judge from outside.
//!
//! The rig is a script beside the checkout, `../shared/rxe-vm/rxe-vm.sh`; `GLASSNIC_RXE_RIG` names
//! another folder. It boots a stock kernel on a bridge in a network namespace of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::place::Place;
use crate::product;

/// A rig with one guest, `a`; stopped when dropped.
#[derive(Debug)]
pub struct Rig {
    script: PathBuf,
    id: String,
    run: PathBuf,
}

/// What a command in the guest printed, and its status.
#[derive(Debug)]
pub struct Answer {
    /// Standard output and standard error together.
    pub text: String,
    /// The exit status.
    pub code: i32,
}

impl Rig {
    /// The host's address on the rig's bridge.
    pub const HOST: &str = "10.99.0.1";
    /// The guest's address there.
    pub const GUEST: &str = "10.99.0.2";

    /// Boots the guest; installs and builds what is missing.
    ///
    /// # Panics
    /// When there is no rig, or the guest does not come up.
    pub fn up() -> Self {
        let folder = std::env::var_os("GLASSNIC_RXE_RIG").map(PathBuf::from);
        let folder = folder.unwrap_or_else(|| product::workspace().join("../shared/rxe-vm"));
        let script = folder.join("rxe-vm.sh");
        assert!(
            script.exists(),
            "no soft-RoCE rig at {}; set GLASSNIC_RXE_RIG to the folder of rxe-vm.sh",
            script.display()
        );
        remove_stale(&script);
        let id = format!("e{}", std::process::id());
        let rig = Self { script, run: run_folder(&id), id };
        for words in [&["build"][..], &["up", "1"]] {
            let output = rig.script(words);
            assert!(output.status.success(), "rxe-vm.sh {} failed:\n{}", words.join(" "), both(&output));
        }
        rig
    }

    /// The host's side of the bridge.
    pub fn host(&self) -> Place {
        Place::Namespace { name: format!("rxevm{}", self.id), interface: "br0".into() }
    }

    /// Runs a shell command in the guest to its end.
    pub fn guest(&self, command: &str) -> Answer {
        let output = self.script(&["exec", "a", command]);
        Answer { text: both(&output), code: output.status.code().unwrap_or(-1) }
    }

    /// Starts a server in the guest and waits until it listens on a TCP port.
    ///
    /// # Errors
    /// What it printed, when it does not come to listen within ten seconds.
    pub fn start_server(&self, command: &str, port: u16, limit: Duration) -> Result<(), String> {
        let seconds = limit.as_secs();
        self.guest(&format!(
            "rm -f /tmp/s.rc; (timeout {seconds} {command}; echo $? >/tmp/s.new; mv /tmp/s.new /tmp/s.rc) >/tmp/s.log 2>&1 &"
        ));
        let listens = format!("cat /proc/net/tcp /proc/net/tcp6 | grep -q ':{port:04X} [0-9A-F:]* 0A '");
        let started = Instant::now();
        while self.guest(&listens).code != 0 {
            if started.elapsed() > Duration::from_secs(10) {
                return Err(format!(
                    "guest: {command} does not listen:\n{}",
                    self.guest("cat /tmp/s.log").text
                ));
            }
        }
        Ok(())
    }

    /// Waits for the server of [`Rig::start_server`].
    pub fn wait_server(&self, limit: Duration) -> Answer {
        let started = Instant::now();
        loop {
            let status = self.guest("cat /tmp/s.rc 2>/dev/null");
            let code = status.text.trim().parse().ok();
            if code.is_some() || started.elapsed() > limit {
                return Answer { text: self.guest("cat /tmp/s.log").text, code: code.unwrap_or(-1) };
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn script(&self, words: &[&str]) -> Output {
        script(&self.script, &self.id, &self.run, words)
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.script(&["down"]);
    }
}

const RUN_PREFIX: &str = "glassnic-rxe.";

fn run_folder(id: &str) -> PathBuf {
    std::env::temp_dir().join(format!("{RUN_PREFIX}{id}"))
}

/// Stops the guests of test processes that were killed.
fn remove_stale(path: &Path) {
    for entry in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(id) = name.strip_prefix(RUN_PREFIX) else { continue };
        if id.strip_prefix('e').is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            script(path, id, &entry.path(), &["down"]);
        }
    }
}

fn script(path: &Path, id: &str, run: &Path, words: &[&str]) -> Output {
    let mut command = Command::new("bash");
    command.arg(path).args(words).env("RXE_ID", id).env("RXE_RUN", run);
    command.output().unwrap_or_else(|error| panic!("cannot run {}: {error}", path.display()))
}

fn both(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}
