//! `glassnic capture`: packets and command records of programs, on one clock, in a file for Wireshark.

mod merge;

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use glassnic_explain::both;
use glassnic_verbs::Words;
use glassnic_verbs::inspect::{CAPTURE_VARIABLE, Folder, NicView, monotonic_ns};
use glassnic_wire::command::CommandRecord;

use crate::program::{GRACE, Interrupts, Program};
use crate::{fault, lang, libdir, out, run};

/// How often the recorders are read: long before they overwrite what was not.
const TICK: Duration = Duration::from_millis(20);
/// How long a process goes on writing packets after we have gone.
const LAPSE_NS: u64 = 2_000_000_000;

/// A NIC whose records are kept.
struct Watched {
    name: String,
    view: NicView,
    /// Number of the record to be read next.
    next: u64,
}

/// What is captured.
struct Session {
    folder: Folder,
    /// The folder of the files of packets, where it is not the node directory.
    taps: Option<PathBuf>,
    pids: BTreeSet<u32>,
    nics: Vec<Watched>,
    /// Segments that were there before.
    foreign: BTreeSet<String>,
    records: Vec<CommandRecord>,
}

/// Runs a program and captures it and the processes that it starts. Gives its exit status, or that of the signal that asked
/// us to end.
///
/// # Errors
/// One line.
pub(crate) fn program(output: &Path, words: &[OsString]) -> Result<u8, String> {
    let (name, arguments) = words
        .split_first()
        .ok_or_else(|| lang().pick("capture needs --pid or a program", "capture 需要 --pid 或一个程序"))?;
    let libraries = libdir::find()?;
    // Before anything runs: nobody wants to learn afterwards that it cannot be written.
    touch(output)?;
    let taps = env::temp_dir().join(format!("glassnic-capture.{}", std::process::id()));
    fs::DirBuilder::new().mode(0o700).create(&taps).map_err(|error| fault(taps.display(), &error))?;
    let taps = RemovedLater(taps);
    let mut session = Session::new(Some(taps.0.clone()))?;
    let mut command = Command::new(name);
    command.args(arguments);
    run::prepare(&mut command, &libraries);
    command.env(CAPTURE_VARIABLE, &taps.0).env("GLASSNIC_KEEP", "1");
    let mut program = Program::start(&mut command)?;
    let mut deadline = None;
    loop {
        // In this order: what the program did last is read after its end.
        let ended = program.has_ended()?;
        session.look();
        if ended {
            // Once we are to end: a server in the background ends as its client does.
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + GRACE);
            let waits = program.is_interrupted() && session.is_anybody_there();
            if !waits || Instant::now() >= deadline {
                break;
            }
        }
        thread::sleep(TICK);
    }
    let result = session.write(output);
    if env::var_os("GLASSNIC_KEEP").is_none() {
        session.nics.iter().for_each(|nic| drop(session.folder.remove(&nic.name)));
    }
    result.map(|()| program.status())
}

/// Captures processes that run, until they have ended, the time is up, or a signal asks us to end. Gives the exit status.
///
/// # Errors
/// One line.
pub(crate) fn processes(output: &Path, pids: &[u32], seconds: Option<u64>) -> Result<u8, String> {
    let mut interrupts = Interrupts::watch()?;
    touch(output)?;
    let mut session = Session::new(None)?;
    session.foreign.clear();
    session.pids.extend(pids);
    session.look();
    for pid in pids {
        if !session.nics.iter().any(|nic| nic.view.pid() == *pid && nic.view.is_open()) {
            return Err(both!(
                lang(),
                "process {pid} has no open device of GlassNIC, or is not yours",
                "进程 {pid} 没有打开 GlassNIC 的设备，或者不属于您"
            ));
        }
    }
    let started = Instant::now();
    let limit = seconds.map(Duration::from_secs);
    let is_time = || limit.is_none_or(|limit| started.elapsed() < limit);
    while is_time() && session.is_anybody_there() && !interrupts.came() {
        session.ask(monotonic_ns() + LAPSE_NS);
        thread::sleep(TICK);
        session.look();
    }
    let result = session.write(output);
    session.ask(0);
    // A process that goes on removes its file itself; one that has ended cannot.
    for pid in pids.iter().filter(|pid| !is_there(**pid)) {
        let _ = fs::remove_file(session.folder.tap(None, *pid));
    }
    result.map(|()| interrupts.status(0))
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
    fn new(taps: Option<PathBuf>) -> Result<Self, String> {
        let folder = Folder::open().map_err(|error| error.in_words(lang()))?;
        let foreign = folder.segments().map_err(|error| error.in_words(lang()))?.into_iter().collect();
        let (pids, nics, records) = (BTreeSet::new(), Vec::new(), Vec::new());
        Ok(Self { folder, taps, pids, nics, foreign, records })
    }

    /// Takes note of new processes and NICs, and of what their recorders have.
    fn look(&mut self) {
        if let Some(taps) = &self.taps {
            let names = fs::read_dir(taps).into_iter().flatten().flatten();
            let names = names.filter_map(|entry| entry.file_name().into_string().ok());
            self.pids.extend(
                names.filter_map(|name| {
                    name.strip_prefix("tap-")?.strip_suffix(".pcapng")?.parse::<u32>().ok()
                }),
            );
        }
        for name in self.folder.segments().unwrap_or_default() {
            if self.foreign.contains(&name) || self.nics.iter().any(|nic| nic.name == name) {
                continue;
            }
            // Gone, not made yet, or another's.
            let Ok(Some(view)) = self.folder.nic(&name) else { continue };
            if self.pids.contains(&view.pid()) {
                self.nics.push(Watched { name, view, next: 1 });
            }
        }
        for nic in &mut self.nics {
            let new = nic.view.records(nic.next);
            nic.next = new.last().map_or(nic.next, |record| record.seq() + 1);
            self.records.extend(new);
        }
    }

    fn ask(&self, until_ns: u64) {
        for nic in self.nics.iter().filter(|nic| nic.view.is_open()) {
            // One that has gone writes nothing more.
            let _ = self.folder.ask_packets(&nic.name, until_ns);
        }
    }

    fn is_anybody_there(&self) -> bool {
        self.nics.iter().any(|nic| nic.view.is_open() && is_there(nic.view.pid()))
    }

    fn write(&self, output: &Path) -> Result<(), String> {
        let taps = self.pids.iter().map(|pid| (*pid, self.folder.tap(self.taps.as_deref(), *pid)));
        // A process without a packet has no file.
        let files: Vec<_> = taps.filter_map(|(pid, path)| Some((pid, fs::read(path).ok()?))).collect();
        let merged = merge::merge(&files, &self.records);
        fs::write(output, &merged.bytes).map_err(|error| fault(output.display(), &error))?;
        let (file, packets, records) = (output.display(), merged.packets, merged.records);
        let said = both!(
            lang(),
            "{file}: {packets} packets and {records} records of {} process(es)",
            "{file}：{packets} 个报文和 {records} 条记录，来自 {} 个进程",
            self.pids.len()
        );
        out::say(&said);
        merged.problems.iter().for_each(|problem| out::say(problem));
        Ok(())
    }
}
