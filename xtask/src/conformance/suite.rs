//! rdma-core's pyverbs suite, as Debian ships it, and a test of it in a process of its own.

use std::fs::{self, File, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;

use crate::cargo;

/// Where the package that has the suite puts it.
const INSTALLED: &str = "/usr/share/doc/rdma-core/tests";

/// The package that has the suite, and the modules that it tests.
const PACKAGE: &str = "python3-pyverbs";

/// Debian's own Python: the modules of the package are built for no other.
const PYTHON: &str = "/usr/bin/python3";

/// Runs one test; its words are in its own first lines.
const ONE_TEST: &str = "conformance/one_test.py";

/// How much sooner than it is killed a test that hangs says where its threads stand.
const LAST_WORDS: Duration = Duration::from_secs(2);

const TICK: Duration = Duration::from_millis(5);

/// What became of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It passed.
    Pass,
    /// It skipped itself, and said why.
    Skip(String),
    /// It failed, crashed or did not end: which, and why.
    Fault(String),
}

/// The suite as files that Python loads, and the NIC that it is run on.
pub(crate) struct Suite {
    files: PathBuf,
    logs: PathBuf,
    /// `glassnic run` and its options.
    launcher: Vec<String>,
    device: String,
    limit: Duration,
}

impl Suite {
    /// Unpacks the suite below `work`, to be run by `launcher`.
    ///
    /// # Errors
    /// When it cannot be found, fetched or unpacked.
    pub(crate) fn prepare(work: &Path, launcher: Vec<String>, device: &str, limit: Duration) -> Result<Self> {
        let (files, logs) = (work.join("tests"), work.join("logs"));
        for folder in [&files, &logs] {
            if folder.exists() {
                fs::remove_dir_all(folder).with_context(|| format!("cannot empty {}", folder.display()))?;
            }
            fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        let suite = Self { files, logs, launcher, device: device.into(), limit };
        let source = installed_or_fetched(work)?;
        cargo::run(python("unpack").arg(source).arg(&suite.files))?;
        Ok(suite)
    }

    /// The name of each test, in the order of the suite.
    ///
    /// # Errors
    /// When the suite cannot be loaded.
    pub(crate) fn tests(&self) -> Result<Vec<String>> {
        let output = self.on_glassnic("list").arg(&self.files).output().context("cannot run the suite")?;
        if !output.status.success() {
            bail!("the suite cannot be loaded:\n{}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
    }

    /// Where a test's output goes.
    pub(crate) fn log(&self, test: &str) -> PathBuf {
        self.logs.join(format!("{test}.log"))
    }

    /// Runs one test to its end or its time limit.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn run(&self, test: &str) -> Result<(Outcome, Duration)> {
        let _slot = slot()?;
        let answer = self.logs.join(format!("{test}.json"));
        let log = File::create(self.log(test)).context("cannot make a log")?;
        let mut command = self.on_glassnic("run");
        command.arg(&self.files).arg(test).arg(&answer);
        command.arg((self.limit - LAST_WORDS).as_secs().to_string()).arg(&self.device);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        // A group of its own, so that what it leaves behind can be ended with it.
        let child = command.process_group(0).spawn().context("cannot start a test")?;
        let started = Instant::now();
        let status = wait(child, self.limit)?;
        let outcome = outcome(status, &answer, self.limit);
        // It was read; one that cannot be removed is of no consequence.
        let _ = fs::remove_file(answer);
        Ok((outcome, started.elapsed()))
    }

    fn on_glassnic(&self, task: &str) -> Command {
        let words = python(task);
        let mut command = Command::new(&self.launcher[0]);
        command.args(&self.launcher[1..]).arg("--").arg(words.get_program()).args(words.get_args());
        command.env_remove("LD_LIBRARY_PATH").current_dir(&self.logs);
        command
    }
}

/// A folder of the target folder, for what is unpacked, written and logged.
///
/// # Errors
/// When cargo does not tell its target folder.
pub(crate) fn work_folder() -> Result<PathBuf> {
    Ok(cargo::target_dir()?.join("conformance"))
}

/// The version of the suite: its package's.
pub(crate) fn version() -> String {
    let query = Command::new("dpkg-query").args(["-W", "-f", "${Version}", PACKAGE]).output();
    query.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

fn python(task: &str) -> Command {
    let mut command = Command::new(PYTHON);
    // No byte code into a folder that is compared, or belongs to another.
    command.arg("-B").arg(cargo::root().join(ONE_TEST)).arg(task);
    command
}

/// Small systems are told to install packages without their documentation (dpkg's path-exclude): there the package is
/// fetched and opened once more.
fn installed_or_fetched(work: &Path) -> Result<PathBuf> {
    let installed = PathBuf::from(INSTALLED);
    if installed.join("__init__.py").exists() {
        return Ok(installed);
    }
    let folder = work.join("package");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    cargo::run(Command::new("apt-get").args(["download", "-qq", PACKAGE]).current_dir(&folder))
        .with_context(|| format!("{INSTALLED} is not there, and {PACKAGE} cannot be fetched"))?;
    let files = fs::read_dir(&folder)?.flatten().map(|entry| entry.path());
    let package = files.filter(|path| path.extension().is_some_and(|end| end == "deb")).max();
    let package = package.context("apt-get fetched no package")?;
    cargo::run(Command::new("dpkg-deb").arg("-x").arg(package).arg(&folder))?;
    Ok(folder.join(INSTALLED.trim_start_matches('/')))
}

/// Holds the machine as the tests of real programs do (`e2e`, `slot`): two programs that poll are all that it bears.
fn slot() -> Result<File> {
    let uid = rustix::process::getuid().as_raw();
    let path = std::env::temp_dir().join(format!("glassnic-e2e-{uid}.lock"));
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = file.with_context(|| format!("cannot open {}", path.display()))?;
    file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
    Ok(file)
}

/// Its status, or `None` when it did not end in time. Nothing of its process group is left.
fn wait(mut child: Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let started = Instant::now();
    let group = Pid::from_raw(child.id().cast_signed());
    let status = loop {
        // Its pid stays taken, and with it the name of the group, until it is waited for.
        let ended = child.try_wait().context("cannot wait for a test")?;
        if ended.is_some() || started.elapsed() >= limit {
            break ended;
        }
        std::thread::sleep(TICK);
    };
    // Fails where all have ended already.
    let _ = group.map(|group| kill_process_group(group, Signal::KILL));
    if status.is_none() {
        child.wait().context("cannot wait for a test that was killed")?;
    }
    Ok(status)
}

#[derive(Deserialize)]
struct Answer {
    outcome: String,
    reason: String,
}

fn outcome(status: Option<ExitStatus>, answer: &Path, limit: Duration) -> Outcome {
    let answer = fs::read(answer).ok().and_then(|text| serde_json::from_slice::<Answer>(&text).ok());
    let Some(status) = status else {
        let when = if answer.is_some() { "after its result" } else { "without a result" };
        return Outcome::Fault(format!("hang: did not end in {} s, {when}", limit.as_secs()));
    };
    match answer {
        Some(Answer { outcome, reason }) if outcome == "pass" && status.success() => {
            debug_assert!(reason.is_empty());
            Outcome::Pass
        }
        Some(Answer { outcome, reason }) if outcome == "skip" && status.success() => Outcome::Skip(reason),
        Some(Answer { outcome, reason }) if status.success() => {
            Outcome::Fault(format!("{outcome}: {reason}"))
        }
        Some(Answer { outcome, .. }) => {
            Outcome::Fault(format!("crash: {status}, after its result ({outcome})"))
        }
        None => Outcome::Fault(format!("crash: {status}, without a result")),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn an_outcome_needs_a_good_end_as_well() {
        let file = std::env::temp_dir().join(format!("glassnic-conformance-{}", std::process::id()));
        let limit = Duration::from_secs(3);
        let (good, killed) = (ExitStatus::from_raw(0), ExitStatus::from_raw(11));
        let judge = |answer: &str, status| {
            fs::write(&file, answer).unwrap();
            outcome(status, &file, limit)
        };
        let fault = |outcome| match outcome {
            Outcome::Fault(why) => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(judge(r#"{"outcome": "pass", "reason": ""}"#, Some(good)), Outcome::Pass);
        let skip = r#"{"outcome": "skip", "reason": "no ODP"}"#;
        assert_eq!(judge(skip, Some(good)), Outcome::Skip("no ODP".into()));
        assert!(fault(judge(skip, Some(killed))).contains("after its result (skip)"));
        assert!(fault(judge(skip, None)).starts_with("hang"));
        let error = judge(r#"{"outcome": "error", "reason": "ValueError"}"#, Some(good));
        assert_eq!(fault(error), "error: ValueError");
        assert!(fault(judge("", Some(killed))).starts_with("crash"));
        fs::remove_file(file).unwrap();
    }

    #[test]
    fn a_test_that_hangs_is_killed_with_its_children() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 30 & echo $!; wait"]).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        assert_eq!(wait(child, Duration::from_millis(200)).unwrap(), None);
        // The pipe ends when no process has it any more.
        let text = std::io::read_to_string(stdout).unwrap();
        assert!(text.trim().parse::<u32>().is_ok(), "{text}");
    }
}
