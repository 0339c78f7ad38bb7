//! Following the flight recorders of NICs from outside: of one process, of all, or of a program that is run for it.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use glassnic_explain::both;
use glassnic_verbs::Words;
use glassnic_verbs::inspect::{Folder, NicView, RUN_VARIABLE, monotonic_ns};
use glassnic_wire::command::CommandRecord;

use crate::out::Reader;
use crate::program::{GRACE, Interrupts, Program};
use crate::{fault, lang, libdir, run};

/// How often the recorders are read: long before they overwrite what was not.
const TICK: Duration = Duration::from_millis(5);

/// Whose NICs are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whom {
    Everybody,
    Process(u32),
    /// A program of ours, and all that it starts: they inherit this number, and show it in their segments.
    Program(u64),
}

/// A NIC that is followed.
pub(crate) struct Nic {
    /// The name of its segment.
    name: String,
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
    /// Follows the NICs of a process, or those of all processes that run.
    ///
    /// # Errors
    /// In a line, why the folder of this host's processes cannot be read.
    pub(crate) fn of(pid: Option<u32>) -> Result<Self, String> {
        Self::new(pid.map_or(Whom::Everybody, Whom::Process))
    }

    fn new(whom: Whom) -> Result<Self, String> {
        let folder = Folder::open().map_err(|error| error.in_words(lang()))?;
        let foreign = match whom {
            // What was there before is none of its own.
            Whom::Program(_) => {
                folder.segments().map_err(|error| error.in_words(lang()))?.into_iter().collect()
            }
            _ => BTreeSet::new(),
        };
        Ok(Self { folder, whom, nics: Vec::new(), foreign })
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
        match self.whom {
            Whom::Everybody => view.is_open() && view.is_alive(),
            Whom::Process(pid) => view.pid() == pid,
            Whom::Program(run) => view.run() == run,
        }
    }

    /// True while one of the NICs may still record something.
    pub(crate) fn goes_on(&self) -> bool {
        self.whom == Whom::Everybody || self.is_anybody_there()
    }

    /// True while one of the NICs is open in a process that runs.
    fn is_anybody_there(&self) -> bool {
        self.nics.iter().any(|nic| nic.view.is_open() && nic.view.is_alive())
    }

    /// Removes segments that were kept for us, unless the user wants to keep them too.
    fn remove(&self) {
        if env::var_os("GLASSNIC_KEEP").is_none() {
            // Somebody else may have cleaned up before.
            self.nics.iter().for_each(|nic| drop(self.folder.remove(&nic.name)));
        }
    }
}

/// Runs a program as `glassnic run` does and follows its NICs, and those of what it starts. Gives its exit status, or that
/// of the signal that asked us to end.
///
/// `look` is called again and again, and once more after the end; `quiet` leaves standard output to us.
///
/// # Errors
/// One line.
pub(crate) fn program(
    words: &[OsString],
    quiet: bool,
    mut look: impl FnMut(&Follower) -> Result<(), String>,
) -> Result<u8, String> {
    let (name, arguments) =
        words.split_first().ok_or_else(|| lang().pick("no program given", "没有给出程序"))?;
    let libraries = libdir::find()?;
    glassnic_verbs::profile::from_env().map_err(|error| error.in_words(lang()))?;
    let run = monotonic_ns();
    let mut follower = Follower::new(Whom::Program(run))?;
    let mut command = Command::new(name);
    command.args(arguments);
    run::prepare(&mut command, &libraries);
    // What ends before we have looked can still be read.
    command.env("GLASSNIC_KEEP", "1").env(RUN_VARIABLE, run.to_string());
    if quiet {
        let stderr = std::io::stderr().as_fd().try_clone_to_owned();
        let stderr = stderr.map_err(|error| fault(lang().pick("standard error", "标准错误"), &error))?;
        command.stdout(Stdio::from(stderr));
    }
    let mut program = Program::start(&mut command)?;
    let mut deadline = None;
    let result = loop {
        // In this order: what the program did last is read after its end.
        let ended = program.has_ended();
        follower.find();
        if let Err(why) = look(&follower) {
            break Err(why);
        }
        match ended {
            Ok(false) => {}
            Ok(true) if program.is_interrupted() && follower.is_anybody_there() => {
                // A server in the background ends as its client does.
                let deadline = *deadline.get_or_insert_with(|| Instant::now() + GRACE);
                if Instant::now() >= deadline {
                    break Ok(());
                }
            }
            ended => break ended.map(drop),
        }
        thread::sleep(TICK);
    };
    follower.remove();
    result.map(|()| program.status())
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
    let mut follower = Follower::of(pid)?;
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
    /// Its records from number `from` on.
    pub(crate) fn records(&self, from: u64) -> Vec<CommandRecord> {
        self.view.records(from)
    }
}
