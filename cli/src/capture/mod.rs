//! `glassnic capture`: packets and command records of programs, on one clock, in a file for Wireshark.

mod merge;

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::BufWriter;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use glassnic_explain::both;
use glassnic_verbs::inspect::{CAPTURE_VARIABLE, monotonic_ns};
use glassnic_wire::command::CommandRecord;

use crate::follow::{self, Follower, Whom};
use crate::program::Interrupts;
use crate::{fault, lang, out};

/// How often the recorders of processes that run are read: long before they overwrite what was not.
const TICK: Duration = Duration::from_millis(20);
/// How long a process goes on writing packets after we have gone.
const LAPSE_NS: u64 = 2_000_000_000;

/// What is captured.
#[derive(Default)]
struct Session {
    /// Number of the record to be read next, of each NIC that is followed.
    next: Vec<u64>,
    records: Vec<CommandRecord>,
}

/// Runs a program and captures it and the processes that it starts. Gives its exit status, or that of the signal that asked
/// us to end.
///
/// # Errors
/// One line.
pub(crate) fn program(output: &Path, words: &[OsString]) -> Result<u8, String> {
    // Before anything runs: nobody wants to learn afterwards that it cannot be written.
    touch(output)?;
    let taps = env::temp_dir().join(format!("glassnic-capture.{}", std::process::id()));
    fs::DirBuilder::new().mode(0o700).create(&taps).map_err(|error| fault(taps.display(), &error))?;
    let taps = RemovedLater(taps);
    let prepare = |command: &mut Command| {
        command.env(CAPTURE_VARIABLE, &taps.0);
        Ok(())
    };
    let mut session = Session::default();
    let status = follow::program(words, prepare, |follower| {
        session.look(follower);
        Ok(())
    })?;
    session.write(output, &tapped(&taps.0))?;
    Ok(status)
}

/// Captures processes that run, until they have ended, the time is up, or a signal asks us to end. Gives the exit status.
///
/// # Errors
/// One line.
pub(crate) fn processes(output: &Path, pids: &[u32], seconds: Option<u64>) -> Result<u8, String> {
    let mut interrupts = Interrupts::watch()?;
    touch(output)?;
    let mut follower = Follower::of(Whom::Processes(pids.to_vec()))?;
    follower.find();
    for pid in pids {
        if !follower.nics().iter().any(|nic| nic.view.pid() == *pid && nic.view.is_open()) {
            return Err(both!(
                lang(),
                "process {pid} has no open device of GlassNIC, or is not yours",
                "进程 {pid} 没有打开 GlassNIC 的设备，或者不属于您"
            ));
        }
    }
    let mut session = Session::default();
    session.look(&follower);
    let started = Instant::now();
    let limit = seconds.map(Duration::from_secs);
    let is_time = || limit.is_none_or(|limit| started.elapsed() < limit);
    while is_time() && follower.is_anybody_there() && !interrupts.came() {
        ask(&follower, monotonic_ns() + LAPSE_NS);
        thread::sleep(TICK);
        follower.find();
        session.look(&follower);
    }
    let taps = pids.iter().map(|pid| (*pid, follower.folder().tap(None, *pid))).collect();
    let result = session.write(output, &taps);
    ask(&follower, 0);
    // A process that goes on removes its file itself; one that has ended cannot.
    for (_, tap) in taps.iter().filter(|(pid, _)| !is_there(**pid)) {
        let _ = fs::remove_file(tap);
    }
    result.map(|()| interrupts.status(0))
}

/// Asks for packets, until this time of the monotonic clock.
fn ask(follower: &Follower, until_ns: u64) {
    for nic in follower.nics().iter().filter(|nic| nic.view.is_open()) {
        // One that has gone writes nothing more.
        let _ = follower.folder().ask_packets(&nic.name, until_ns);
    }
}

/// The files of packets in a folder, by process.
fn tapped(folder: &Path) -> BTreeMap<u32, PathBuf> {
    let pid_of = |path: &Path| path.file_stem()?.to_str()?.strip_prefix("tap-")?.parse().ok();
    let paths = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    paths.filter_map(|path| Some((pid_of(&path)?, path))).collect()
}

fn is_there(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

fn touch(output: &Path) -> Result<(), String> {
    fs::write(output, []).map_err(|error| fault(output.display(), &error))
}

struct RemovedLater(PathBuf);

impl Drop for RemovedLater {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Session {
    /// Takes note of what the recorders of NICs have.
    fn look(&mut self, follower: &Follower) {
        self.next.resize(follower.nics().len(), 1);
        for (nic, next) in follower.nics().iter().zip(&mut self.next) {
            let new = nic.records(*next);
            *next = new.last().map_or(*next, |record| record.seq() + 1);
            self.records.extend(new);
        }
    }

    /// Writes what there is, with the packets in the files of these processes.
    fn write(&self, output: &Path, taps: &BTreeMap<u32, PathBuf>) -> Result<(), String> {
        // A process without a packet has no file.
        let files: Vec<_> =
            taps.iter().filter_map(|(pid, tap)| Some((*pid, File::open(tap).ok()?))).collect();
        let write = || merge::merge(&mut BufWriter::new(File::create(output)?), &files, &self.records);
        let merged = write().map_err(|error| fault(output.display(), &error))?;
        let (file, packets, records) = (output.display(), merged.packets, merged.records);
        let said = both!(
            lang(),
            "{file}: {packets} packets and {records} records of {} process(es)",
            "{file}：{packets} 个报文和 {records} 条记录，来自 {} 个进程",
            taps.len()
        );
        out::say(&said);
        merged.problems.iter().for_each(|problem| out::say(problem));
        Ok(())
    }
}
