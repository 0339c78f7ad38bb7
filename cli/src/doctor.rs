//! `glassnic doctor`: what is wrong, and what to change.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use glassnic_explain::both;
use glassnic_inspect::Host;
use glassnic_inspect::doctor::{self, Fault, Finding, Severity, Whom};
use rustix::process::{Pid, Signal, kill_process};

use crate::follow::Run;
use crate::program::GRACE;
use crate::{lang, out};

/// Something was found.
const EXIT_FINDINGS: u8 = 1;
/// How often a program is looked at while it runs: what it destroys before its end is seen no more after it.
const TICK: Duration = Duration::from_millis(200);
/// How often, of the time that it is given, it is looked at to see what grows.
const LOOKS: u32 = 3;

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
    let (findings, mut run) = if how.command.is_empty() {
        (processes(how)?, None)
    } else {
        program(how).map(|(findings, run)| (findings, Some(run)))?
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
    Ok(run.as_mut().map_or(status, |run| run.program.status_or(status)))
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
    run: Run,
    /// In the order in which they were first found.
    errors: Vec<Finding>,
    /// Where in `errors` each is.
    known: BTreeMap<Key, usize>,
}

/// What is the same in two findings that say the same of the same: rule, process, QPN.
type Key = (&'static str, u32, Option<u32>);

/// Runs a program and looks at it until its end, or for as long as was asked.
fn program(how: &How) -> Result<(Vec<Finding>, Run), String> {
    let run = Run::start(&how.command, |_| Ok(()))?;
    let mut patient = Patient { run, errors: Vec::new(), known: BTreeMap::new() };
    let started = Instant::now();
    let limit = how.after.map(Duration::from_secs);
    let mut looks = Vec::new();
    loop {
        let ended = patient.run.has_ended()?;
        let host = Host::read(lang())?;
        let mut findings = patient.look(&host);
        if ended {
            return Ok(patient.with_errors(findings));
        }
        let has_run = |time: Duration| started.elapsed() >= time;
        let is_due = limit.is_some_and(has_run);
        if is_due || limit.is_some_and(|limit| has_run(limit / LOOKS * (looks.len() as u32 + 1))) {
            looks.push(host);
        }
        if is_due {
            findings.extend(doctor::growth(&looks, Some(&patient.pids())));
            if how.end {
                patient.end()?;
            }
            return Ok((findings, patient.run));
        }
        // A program that ends is noticed soon; one that goes on is not disturbed.
        let next = Instant::now() + TICK;
        while Instant::now() < next && !patient.run.program.has_ended()? {
            thread::sleep(TICK / 10);
        }
    }
}

impl Patient {
    /// The processes that it started and that have, or had, a NIC.
    fn pids(&self) -> Vec<u32> {
        self.run.follower.nics().iter().map(|nic| nic.view.pid()).collect()
    }

    /// What is wrong now. Errors are remembered: the QPs may be gone when the program has ended.
    fn look(&mut self, host: &Host) -> Vec<Finding> {
        let pids = self.pids();
        let findings = doctor::examine(host, Whom { pids: Some(&pids), gone: false });
        for error in findings.iter().filter(|finding| finding.severity == Severity::Error) {
            let at = *self.known.entry(key(error)).or_insert(self.errors.len());
            match self.errors.get_mut(at) {
                Some(known) => *known = error.clone(),
                None => self.errors.push(error.clone()),
            }
        }
        findings
    }

    /// What was found at the end, and before.
    fn with_errors(self, mut findings: Vec<Finding>) -> (Vec<Finding>, Run) {
        let mut of_qp = BTreeMap::<Option<u32>, Vec<Key>>::new();
        for error in &self.errors {
            of_qp.entry(error.qpn).or_default().push(key(error));
        }
        // Of a QP that is gone only its first error is left; while it was there more was known.
        let known = |finding: &Finding| {
            let is_left = matches!(finding.fault, Fault::Failed { state: None, .. });
            let mut others = of_qp.get(&finding.qpn).into_iter().flatten();
            is_left && others.any(|other| *other != key(finding))
        };
        findings.retain(|finding| !known(finding));
        let told: BTreeSet<Key> = findings.iter().map(key).collect();
        findings.extend(self.errors.into_iter().filter(|error| !told.contains(&key(error))));
        findings.sort_by_key(|finding| (finding.severity, finding.certainty));
        (findings, self.run)
    }

    /// Ends the program and the processes with a NIC that it started.
    fn end(&mut self) -> Result<(), String> {
        let open = self.run.follower.nics().iter().filter(|nic| nic.is_there());
        let mut pids: Vec<u32> = open.map(|nic| nic.view.pid()).collect();
        pids.push(self.run.program.pid());
        for (signal, patience) in [(Signal::TERM, GRACE), (Signal::KILL, Duration::MAX)] {
            for pid in pids.iter().filter_map(|pid| Pid::from_raw(pid.cast_signed())) {
                // One that has ended meanwhile needs no signal.
                let _ = kill_process(pid, signal);
            }
            let asked = Instant::now();
            while asked.elapsed() < patience {
                if self.run.program.has_ended()? {
                    return Ok(());
                }
                thread::sleep(TICK / 10);
            }
        }
        Ok(())
    }
}

fn key(finding: &Finding) -> Key {
    (finding.fault.rule(), finding.process.pid, finding.qpn)
}
