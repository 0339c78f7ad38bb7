//! Programs that run to be looked at, and the signals by which somebody asks us to end.
//!
//! Ctrl-C at a terminal reaches the program as well as us. It ends as it will; then what was gathered is written, what was
//! kept for us removed, and our exit status tells of the signal.

use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;

use crate::{fault, lang};

/// A signal that a process sent may have gone to the program too, as timeout(1) does it. One that has not ended after this
/// time gets it from us.
const PATIENCE: Duration = Duration::from_secs(1);

/// So many signals end a program that does not end by itself.
const INSISTENCE: u32 = 3;

/// How long processes that outlive the program which started them may take to close their NICs, once we are to end.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// The signals that ask to end, noted from now on instead of obeyed.
pub(crate) struct Interrupts {
    signals: SignalsInfo<WithOrigin>,
    /// The first that came.
    first: Option<u8>,
    count: u32,
    /// What is to be passed on, and when.
    owed: Option<(Signal, Instant)>,
}

impl Interrupts {
    /// Notes them from now on.
    ///
    /// # Errors
    /// One line, when the kernel does not let us.
    pub(crate) fn watch() -> Result<Self, String> {
        // nohup(1) asks that a terminal which goes away ends nothing.
        let hang_up = (!is_ignored(SIGHUP)).then_some(SIGHUP);
        let signals = SignalsInfo::new([SIGINT, SIGTERM].into_iter().chain(hang_up));
        let cannot = || lang().pick("cannot watch for signals", "不能接收信号");
        let signals = signals.map_err(|error| fault(cannot(), &error))?;
        Ok(Self { signals, first: None, count: 0, owed: None })
    }

    /// Whether one came.
    pub(crate) fn came(&mut self) -> bool {
        for origin in self.signals.pending() {
            self.count += 1;
            self.first.get_or_insert(origin.signal as u8);
            // The kernel sends it to all of the terminal's foreground group: the program has it.
            if let (Some(_), Some(signal)) = (origin.process, Signal::from_named_raw(origin.signal)) {
                self.owed = Some((signal, Instant::now() + PATIENCE));
            }
        }
        self.first.is_some()
    }

    /// The exit status: that of the signal if one came, as a shell says it (POSIX.1, 2.8.2).
    pub(crate) fn status(&mut self, otherwise: u8) -> u8 {
        self.came();
        self.first.map_or(otherwise, |signal| 128 + signal)
    }
}

/// Whether whoever started us lets us ignore a signal (proc(5), `SigIgn`).
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// A program that runs.
pub(crate) struct Program {
    child: Child,
    interrupts: Interrupts,
    status: Option<ExitStatus>,
}

impl Program {
    /// Starts it.
    ///
    /// # Errors
    /// One line, when there is none of this name, or it cannot be run.
    pub(crate) fn start(command: &mut Command) -> Result<Self, String> {
        // First, lest one that comes in between ends us and leaves the program.
        let interrupts = Interrupts::watch()?;
        let name = command.get_program().to_owned();
        let child = command.spawn().map_err(|error| fault(name.display(), &error))?;
        Ok(Self { child, interrupts, status: None })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended. Passes on signals that are owed to it.
    ///
    /// # Errors
    /// One line, when the kernel does not tell.
    pub(crate) fn has_ended(&mut self) -> Result<bool, String> {
        if self.status.is_none() {
            let cannot = || lang().pick("cannot wait for the program", "不能等待程序");
            self.status = self.child.try_wait().map_err(|error| fault(cannot(), &error))?;
        }
        if self.status.is_none() && self.interrupts.came() {
            self.pass_on();
        }
        Ok(self.status.is_some())
    }

    fn pass_on(&mut self) {
        if self.interrupts.count >= INSISTENCE {
            // Fails only for one that has ended.
            let _ = self.child.kill();
        } else if let Some((signal, _)) = self.interrupts.owed.take_if(|(_, at)| Instant::now() >= *at) {
            let pid = Pid::from_raw(self.child.id().cast_signed());
            // Nobody has waited for it: its pid is not another's.
            let _ = pid.map(|pid| kill_process(pid, signal));
        }
    }

    /// Whether we are asked to end.
    pub(crate) fn is_interrupted(&mut self) -> bool {
        self.interrupts.came()
    }

    /// Our exit status: its own, or that of the signal that asked us to end.
    pub(crate) fn status(&mut self) -> u8 {
        let own = self.status.map_or(0, exit_code);
        self.interrupts.status(own)
    }

    /// Our exit status when its own is not ours to tell.
    pub(crate) fn status_or(&mut self, otherwise: u8) -> u8 {
        self.interrupts.status(otherwise)
    }
}

/// The status of a program that has ended, as a shell says it (POSIX.1, 2.8.2).
fn exit_code(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    let signal = || 128 + status.signal().unwrap_or(0);
    status.code().unwrap_or_else(signal) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::getpid;

    /// One process has one disposition for each signal: all in one test.
    #[test]
    fn a_signal_is_noted_and_given_to_a_program_that_did_not_get_it() {
        let sleeping = |script: &str| Program::start(Command::new("sh").args(["-c", script])).unwrap();
        let mut program = sleeping("exec sleep 20");
        assert!(!program.has_ended().unwrap() && !program.is_interrupted());
        kill_process(getpid(), Signal::INT).unwrap();
        let began = Instant::now();
        while !program.has_ended().unwrap() {
            assert!(began.elapsed() < Duration::from_secs(10));
        }
        assert!(began.elapsed() >= PATIENCE, "it may have had it already");
        assert_eq!((program.status(), program.status_or(1)), (130, 130));

        // One that does not want to end is made to, by somebody who insists.
        let mut deaf = sleeping("trap '' INT TERM; exec sleep 30");
        for number in 1..=INSISTENCE {
            assert!(!deaf.has_ended().unwrap());
            kill_process(getpid(), Signal::TERM).unwrap();
            // Another thread of the tests may be the one that gets it.
            let began = Instant::now();
            while deaf.interrupts.count < number {
                let _ = deaf.interrupts.came();
                assert!(began.elapsed() < Duration::from_secs(10));
            }
        }
        while !deaf.has_ended().unwrap() {}
        assert_eq!(deaf.status(), 143);
    }

    #[test]
    fn the_status_of_a_program_is_that_of_a_shell() {
        for (script, status) in [("exit 7", 7), ("kill -KILL $$", 137)] {
            let ended = Command::new("sh").args(["-c", script]).status().unwrap();
            assert_eq!(exit_code(ended), status, "{script}");
        }
    }
}
