//! Following the flight recorders of NICs from outside: of processes, of all, or of a program that is run for it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use glassnic_explain::both;
use glassnic_verbs::Words;
use glassnic_verbs::inspect::{Folder, NicView};
use glassnic_wire::command::CommandRecord;

use crate::out::Reader;
use crate::program::{GRACE, Interrupts, Program};
use crate::{fault, lang, run};

/// How often the recorders are read: long before they overwrite what was not.
const TICK: Duration = Duration::from_millis(5);

/// Whose NICs are followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Whom {
    /// Those of all processes that run.
    Everybody,
    /// Those of these processes.
    Processes(Vec<u32>),
    /// Those of a program of ours, and of all that it starts: they inherit this number, and show it in their segments.
    Program(u64),
}

/// A NIC that is followed.
pub(crate) struct Nic {
    /// The name of its segment.
    pub(crate) name: String,
    /// What it shows.
    pub(crate) view: NicView,
}

/// Follows NICs. It reads, and disturbs nobody.
pub(crate) struct Follower {
    folder: Folder,
    whom: Whom,
    nics: Vec<Nic>,
    /// Segments of others.
    foreign: BTreeSet<String>,
}

impl Follower {
    /// Follows them. None has been found yet.
    ///
    /// # Errors
    /// In a line, why the folder of this host's processes cannot be opened.
    pub(crate) fn of(whom: Whom) -> Result<Self, String> {
        let folder = Folder::open().map_err(|error| error.in_words(lang()))?;
        Ok(Self { folder, whom, nics: Vec::new(), foreign: BTreeSet::new() })
    }

    /// The folder of the segments.
    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    /// The NICs found so far, in the order in which they were; one that was found stays.
    pub(crate) fn nics(&self) -> &[Nic] {
        &self.nics
    }

    /// Looks for NICs that were opened since.
    pub(crate) fn find(&mut self) {
        // A folder that cannot be read now is read at the next look.
        for name in self.folder.segments().unwrap_or_default() {
            if self.foreign.contains(&name) || self.nics.iter().any(|nic| nic.name == name) {
                continue;
            }
            // Gone, or not made yet.
            let Ok(Some(view)) = self.folder.nic(&name) else { continue };
            if self.is_meant(&view) {
                self.nics.push(Nic { name, view });
            } else {
                self.foreign.insert(name);
            }
        }
    }

    fn is_meant(&self, view: &NicView) -> bool {
        match &self.whom {
            Whom::Everybody => view.is_open() && view.is_alive(),
            Whom::Processes(pids) => pids.contains(&view.pid()),
            Whom::Program(run) => view.run() == *run,
        }
    }

    /// True while one of the NICs may still record something.
    pub(crate) fn goes_on(&self) -> bool {
        self.whom == Whom::Everybody || self.is_anybody_there()
    }

    /// True while one of the NICs is open in a process that runs.
    pub(crate) fn is_anybody_there(&self) -> bool {
        self.nics.iter().any(Nic::is_there)
    }

    /// Removes the segments that were kept for us, unless the user wants to keep them too. Those of a crash stay, as ever; not
    /// those of processes that ended because we were asked to end (`interrupted`).
    pub(crate) fn remove(&mut self, interrupted: bool) {
        self.find();
        let is_left = |nic: &&Nic| !nic.view.is_open() || interrupted && !nic.view.is_alive();
        if !run::keeps() {
            // Somebody else may have cleaned up before.
            self.nics.iter().filter(is_left).for_each(|nic| drop(self.folder.remove(&nic.name)));
        }
    }
}

/// A program that runs for us to follow it, and all that it starts. What was kept for us goes when it is dropped.
pub(crate) struct Run {
    pub(crate) program: Program,
    pub(crate) follower: Follower,
    /// Until when what it left in the background may take to end, once we are to.
    deadline: Option<Instant>,
}

impl Run {
    /// Runs it as `glassnic run` does; `prepare` may set more.
    ///
    /// # Errors
    /// One line.
    pub(crate) fn start(
        words: &[OsString],
        prepare: impl FnOnce(&mut Command) -> Result<(), String>,
    ) -> Result<Self, String> {
        let (mut command, libraries) = run::command(words)?;
        let number = run::prepare_to_follow(&mut command, &libraries);
        prepare(&mut command)?;
        let follower = Follower::of(Whom::Program(number))?;
        Ok(Self { program: Program::start(&mut command)?, follower, deadline: None })
    }

    /// Whether it has ended, and NICs that were opened since. What the program did last is read after its end: look once
    /// more when this says so.
    ///
    /// # Errors
    /// One line, when the kernel does not tell.
    pub(crate) fn has_ended(&mut self) -> Result<bool, String> {
        let ended = self.program.has_ended()?;
        self.follower.find();
        if !ended || !self.program.is_interrupted() || !self.follower.is_anybody_there() {
            return Ok(ended);
        }
        // A server in the background ends as its client does.
        let deadline = *self.deadline.get_or_insert_with(|| Instant::now() + GRACE);
        Ok(Instant::now() >= deadline)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.follower.remove(self.program.is_interrupted());
    }
}

/// Runs a program as `glassnic run` does and follows its NICs, and those of what it starts. Gives its exit status, or that
/// of the signal that asked us to end.
///
/// `prepare` may set more; `look` is called again and again, and once more after the end.
///
/// # Errors
/// One line.
pub(crate) fn program(
    words: &[OsString],
    prepare: impl FnOnce(&mut Command) -> Result<(), String>,
    mut look: impl FnMut(&Follower) -> Result<(), String>,
) -> Result<u8, String> {
    let mut run = Run::start(words, prepare)?;
    loop {
        let ended = run.has_ended()?;
        look(&run.follower)?;
        if ended {
            return Ok(run.program.status());
        }
        thread::sleep(TICK);
    }
}

/// Leaves standard output to us: what a program writes there goes to standard error.
///
/// # Errors
/// One line.
pub(crate) fn quiet(command: &mut Command) -> Result<(), String> {
    let stderr = std::io::stderr().as_fd().try_clone_to_owned();
    let stderr = stderr.map_err(|error| fault(lang().pick("standard error", "标准错误"), &error))?;
    command.stdout(Stdio::from(stderr));
    Ok(())
}

/// Follows a process, or all, until there is nothing more to come, nobody reads any more, or a signal asks to end. Gives the
/// exit status.
///
/// # Errors
/// One line; also when the process has no NIC.
pub(crate) fn processes(
    pid: Option<u32>,
    mut look: impl FnMut(&Follower) -> Result<Reader, String>,
) -> Result<u8, String> {
    let mut interrupts = Interrupts::watch()?;
    let mut follower = Follower::of(pid.map_or(Whom::Everybody, |pid| Whom::Processes(vec![pid])))?;
    follower.find();
    if let Some(pid) = pid.filter(|_| follower.nics.is_empty()) {
        return Err(no_nic(pid));
    }
    loop {
        // In this order: what came last is read after its end.
        let goes_on = follower.goes_on() && !interrupts.came();
        if look(&follower)? == Reader::Gone || !goes_on {
            return Ok(interrupts.status(0));
        }
        thread::sleep(TICK);
        follower.find();
    }
}

/// What to say of a process without a NIC.
pub(crate) fn no_nic(pid: u32) -> String {
    both!(
        lang(),
        "process {pid} has no NIC of GlassNIC, or is not yours; glassnic ps shows those that have",
        "进程 {pid} 没有 GlassNIC 的 NIC，或者不属于您；glassnic ps 列出有 NIC 的进程"
    )
}

impl Nic {
    /// Whether it is open in a process that runs.
    pub(crate) fn is_there(&self) -> bool {
        self.view.is_open() && self.view.is_alive()
    }

    /// Its records from number `from` on.
    pub(crate) fn records(&self, from: u64) -> Vec<CommandRecord> {
        self.view.records(from)
    }
}
