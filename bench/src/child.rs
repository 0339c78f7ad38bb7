//! Child processes: each on a core, none outliving us, none running for ever.

use std::process::{ChildStdout, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// A child that does not outlive us.
pub(crate) struct Child {
    child: std::process::Child,
    program: String,
}

impl Child {
    /// Starts a command on core `core` of those that this process may use, in turn. On a machine with one core all
    /// share it.
    ///
    /// # Errors
    /// The program cannot be run.
    pub(crate) fn spawn_on(core: usize, command: &mut Command) -> Result<Self> {
        let program = command.get_program().to_string_lossy().into_owned();
        let all = sched_getaffinity(None).context("which cores may be used?")?;
        let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| all.is_set(*cpu)).collect();
        let mut one = CpuSet::new();
        one.set(cores[core % cores.len()]);
        // A child inherits the cores of the thread that makes it.
        sched_setaffinity(None, &one).context("cannot choose a core")?;
        let child = command.spawn();
        sched_setaffinity(None, &all).context("cannot use all cores again")?;
        Ok(Self { child: child.with_context(|| format!("cannot run {program}"))?, program })
    }

    /// Its output, if it was piped and not taken yet.
    pub(crate) fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Its end, if it has ended.
    ///
    /// # Errors
    /// It failed.
    pub(crate) fn has_ended(&mut self) -> Result<bool> {
        match self.child.try_wait()? {
            None => Ok(false),
            Some(status) if status.success() => Ok(true),
            Some(status) => bail!("{} ended with {status}", self.program),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Both fail for a child that has been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for all of them.
///
/// # Errors
/// One failed, or not all ended until `until`.
pub(crate) fn wait_all(children: &mut [Child], until: Instant) -> Result<()> {
    loop {
        let mut running = false;
        for child in &mut *children {
            running |= !child.has_ended()?;
        }
        if !running {
            return Ok(());
        }
        if Instant::now() > until {
            bail!("no result in time");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
