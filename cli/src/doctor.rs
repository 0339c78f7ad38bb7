//! `glassnic doctor`: what is wrong, and what to change.

use std::env;
use std::ffi::OsString;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use glassnic_explain::both;
use glassnic_inspect::doctor::{self, Fault, Finding, Severity, Whom};
use glassnic_inspect::{Host, NicState};
use glassnic_verbs::inspect::{Folder, RUN_VARIABLE, monotonic_ns};
use rustix::process::{Pid, Signal, kill_process};

use crate::program::{GRACE, Program};
use crate::{lang, libdir, out, run};

/// Something was found.
const EXIT_FINDINGS: u8 = 1;
/// How often a program is looked at while it runs: what it destroys before its end is seen no more after it.
const TICK: Duration = Duration::from_millis(200);
/// How often, of the time that it is given, it is looked at to see what grows.
const LOOKS: u32 = 3;
/// Keeps a segment that its program has closed.
const KEEP: &str = "GLASSNIC_KEEP";

/// Whom to look at, and how to say what is found.
#[derive(Args)]
pub(crate) struct How {
    /// Only what concerns this process
    #[arg(value_name = "PID")]
    pid: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Look only at what is left of processes that crashed, ended, or closed their NIC
    #[arg(long, conflicts_with_all = ["after", "command"])]
    post_mortem: bool,
    /// With a program: look after so many seconds if it still runs, and leave it running
    #[arg(long, value_name = "SECONDS", requires = "command")]
    after: Option<u64>,
    /// With --after: end the program then
    #[arg(long, requires = "after")]
    end: bool,
    /// A program and its arguments, which runs as with glassnic run
    #[arg(last = true, value_name = "CMD", conflicts_with = "pid")]
    command: Vec<OsString>,
}

/// Looks, prints, and gives the exit status.
///
/// # Errors
/// One line.
pub(crate) fn doctor(how: &How) -> Result<u8, String> {
    let (findings, program) = if how.command.is_empty() {
        (processes(how)?, None)
    } else {
        program(how).map(|(findings, program)| (findings, Some(program)))?
    };
    let text = if how.json {
        let reports = doctor::json(lang(), &findings);
        format!("{}\n", serde_json::to_string_pretty(&reports).map_err(|error| error.to_string())?)
    } else {
        doctor::text(lang(), &findings)
    };
    // The status tells the same to somebody who does not read.
    let _ = out::print(&text)?;
    let status = if findings.is_empty() { 0 } else { EXIT_FINDINGS };
    Ok(program.map_or(status, |mut program| program.status_or(status)))
}

fn processes(how: &How) -> Result<Vec<Finding>, String> {
    let host = Host::read(lang())?;
    if let Some(pid) = how.pid
        && !host.nics.iter().any(|nic| nic.model.pid == pid)
    {
        return Err(both!(
            lang(),
            "process {pid} has no NIC, and had none that is still kept; glassnic ps lists those with one",
            "进程 {pid} 没有 NIC，也没有留存下来的 NIC；glassnic ps 列出有 NIC 的进程"
        ));
    }
    let pids = how.pid.map(|pid| [pid]);
    let whom = Whom { pids: pids.as_ref().map(|pids| &pids[..]), gone: how.post_mortem };
    Ok(doctor::examine(&host, whom))
}

/// A program that runs, and what was found until now.
struct Patient {
    /// The number that its processes show in their segments.
    run: u64,
    program: Program,
    errors: Vec<Finding>,
}

/// Runs a program and looks at it until its end, or for as long as was asked.
fn program(how: &How) -> Result<(Vec<Finding>, Program), String> {
    let (name, arguments) =
        how.command.split_first().ok_or_else(|| lang().pick("no program given", "没有给出程序"))?;
    let mut command = Command::new(name);
    command.args(arguments);
    run::prepare(&mut command, &libdir::find()?);
    let run = monotonic_ns();
    command.env(KEEP, "1").env(RUN_VARIABLE, run.to_string());
    let mut patient = Patient { run, program: Program::start(&mut command)?, errors: Vec::new() };
    let started = Instant::now();
    let limit = how.after.map(Duration::from_secs);
    let mut looks = Vec::new();
    loop {
        // In this order: what the program did last is read after its end.
        let ended = patient.program.has_ended()?;
        let host = Host::read(lang())?;
        let mut findings = patient.look(&host);
        if ended {
            patient.wait_for_the_rest()?;
            forget(run);
            return Ok(patient.with_errors(findings));
        }
        let has_run = |time: Duration| started.elapsed() >= time;
        let is_due = limit.is_some_and(has_run);
        if is_due || limit.is_some_and(|limit| has_run(limit / LOOKS * (looks.len() as u32 + 1))) {
            looks.push(host);
        }
        if is_due {
            let pids = looks.last().map(|host| patient.pids(host)).unwrap_or_default();
            findings.extend(doctor::growth(&looks, Some(&pids)));
            if how.end {
                patient.end()?;
                forget(run);
            }
            return Ok((findings, patient.program));
        }
        // A program that ends is noticed soon; one that goes on is not disturbed.
        let next = Instant::now() + TICK;
        while Instant::now() < next && !patient.program.has_ended()? {
            thread::sleep(TICK / 10);
        }
    }
}

impl Patient {
    fn pids(&self, host: &Host) -> Vec<u32> {
        let own = host.nics.iter().filter(|nic| nic.model.run == self.run);
        own.map(|nic| nic.model.pid).collect()
    }

    /// What is wrong now. Errors are remembered: the QPs may be gone when the program has ended.
    fn look(&mut self, host: &Host) -> Vec<Finding> {
        let pids = self.pids(host);
        let findings = doctor::examine(host, Whom { pids: Some(&pids), gone: false });
        for error in findings.iter().filter(|finding| finding.severity == Severity::Error) {
            match self.errors.iter_mut().find(|known| is_same(known, error)) {
                Some(known) => *known = error.clone(),
                None => self.errors.push(error.clone()),
            }
        }
        findings
    }

    /// What was found at the end, and before.
    fn with_errors(self, mut findings: Vec<Finding>) -> (Vec<Finding>, Program) {
        // Of a QP that is gone only its first error is left; while it was there more was known.
        let known = |finding: &Finding| {
            let is_left = matches!(finding.fault, Fault::Failed { state: None, .. });
            is_left && self.errors.iter().any(|error| !is_same(error, finding) && error.qpn == finding.qpn)
        };
        findings.retain(|finding| !known(finding));
        for error in self.errors {
            if !findings.iter().any(|finding| is_same(finding, &error)) {
                findings.push(error);
            }
        }
        findings.sort_by_key(|finding| (finding.severity, finding.certainty));
        (findings, self.program)
    }

    /// The processes that it started and whose NIC is open.
    fn open(&self) -> Result<Vec<u32>, String> {
        let host = Host::read(lang())?;
        let own = host.nics.iter().filter(|nic| nic.model.run == self.run);
        Ok(own.filter(|nic| nic.model.state == NicState::Open).map(|nic| nic.model.pid).collect())
    }

    /// Once we are to end, what outlives the program gets a while for it: a server in the background ends as its client does.
    fn wait_for_the_rest(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + GRACE;
        while self.program.is_interrupted() && Instant::now() < deadline && !self.open()?.is_empty() {
            thread::sleep(TICK / 10);
        }
        Ok(())
    }

    /// Ends the program and the processes with a NIC that it started.
    fn end(&mut self) -> Result<(), String> {
        let mut pids = self.open()?;
        pids.push(self.program.pid());
        for (signal, patience) in [(Signal::TERM, GRACE), (Signal::KILL, Duration::MAX)] {
            for pid in pids.iter().filter_map(|pid| Pid::from_raw(pid.cast_signed())) {
                // One that has ended meanwhile needs no signal.
                let _ = kill_process(pid, signal);
            }
            let asked = Instant::now();
            while asked.elapsed() < patience {
                if self.program.has_ended()? {
                    return Ok(());
                }
                thread::sleep(TICK / 10);
            }
        }
        Ok(())
    }
}

/// Whether two findings say the same of the same.
fn is_same(one: &Finding, other: &Finding) -> bool {
    let key = |finding: &Finding| (finding.fault.rule(), finding.process.pid, finding.qpn);
    key(one) == key(other)
}

/// Removes the segments that were kept for us only; that of a crash stays, as ever.
fn forget(run: u64) {
    if env::var_os(KEEP).is_some() {
        return;
    }
    let (Ok(host), Ok(folder)) = (Host::read(lang()), Folder::open()) else { return };
    for nic in host.nics.iter().filter(|nic| nic.model.run == run && nic.model.state == NicState::Closed) {
        // It may have been pruned.
        let _ = folder.remove(&nic.model.segment);
    }
}
