//! The processes of a measurement. Two sides run this program again, each on a core of its own; a socket pair joins
//! them for what must be agreed before and after, and the first side prints a [`Measure`] per line, which the parent
//! gathers.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, ValueEnum};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::child::{self, Child};
use crate::report::{Group, Kind, UNRECORDED};
use crate::stats::Measure;
use crate::{limits, udp, verbs};

/// A part may take that long before its processes are ended.
const PART_MAX: Duration = Duration::from_secs(60);

/// How much is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scale {
    /// To see that all works.
    Quick,
    /// To compare.
    Full,
}

impl Scale {
    /// `full` repetitions, or a tenth.
    pub(crate) fn of(self, full: usize) -> usize {
        match self {
            Self::Quick => (full / 10).max(1),
            Self::Full => full,
        }
    }

    /// How often everything is measured: one after the other, again and again, so that a minute in which the machine is
    /// busy with something else hits all alike.
    pub(crate) fn sweeps(self) -> usize {
        match self {
            Self::Quick => 1,
            Self::Full => 5,
        }
    }

    /// Round trips of a latency; false for those before the clock counts.
    pub(crate) fn trips(self) -> impl Iterator<Item = bool> {
        let (warm_up, measured) = (self.of(1_000), self.of(10_000));
        (0..warm_up + measured).map(move |trip| trip >= warm_up)
    }

    /// Messages of `size` bytes in a round of a bandwidth.
    pub(crate) fn messages(self, size: usize) -> usize {
        (self.of(64 << 20) / size).max(1)
    }

    /// Rounds of a bandwidth, of which the first warms up.
    pub(crate) fn rounds(self) -> std::ops::Range<usize> {
        0..4
    }
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// memcpy, one process.
    Memcpy,
    /// A ring in shared memory.
    Ring,
    /// process_vm_writev(2).
    SingleCopy,
    /// UDP datagrams, one a call.
    Udp,
    /// UDP with segmentation and receive offload.
    UdpOffload,
    /// GlassNIC, both queue pairs in one process.
    VerbsAlone,
    /// GlassNIC, two processes.
    Verbs,
    /// The same without the flight recorder.
    VerbsUnrecorded,
}

/// What is measured of a link, limits first, with its name in the table.
pub(crate) fn parts(group: Group) -> &'static [(Part, &'static str, Kind)] {
    const GLASSNIC: &str = "GlassNIC";
    match group {
        Group::Memory => {
            &[(Part::Memcpy, "memcpy", Kind::Limit), (Part::VerbsAlone, GLASSNIC, Kind::GlassNic)]
        }
        Group::Shm => &[
            (Part::Ring, "shared-memory ring", Kind::Limit),
            (Part::SingleCopy, "process_vm_writev", Kind::Limit),
            (Part::Verbs, GLASSNIC, Kind::GlassNic),
            (Part::VerbsUnrecorded, UNRECORDED, Kind::Other),
        ],
        Group::Udp => &[
            (Part::Udp, "UDP", Kind::Limit),
            (Part::UdpOffload, "UDP with GSO, GRO", Kind::Limit),
            (Part::Verbs, GLASSNIC, Kind::GlassNic),
        ],
    }
}

impl Part {
    /// Runs the processes and gathers what the first one says.
    ///
    /// # Errors
    /// When a process cannot be run, fails, or takes too long.
    pub(crate) fn measure(self, group: Group, scale: Scale) -> Result<Vec<Measure>> {
        let (ours, theirs) = UnixStream::pair().context("cannot make a socket pair")?;
        let mut sides = vec![self.spawn(group, scale, 0, ours, Stdio::piped())?];
        if !matches!(self, Self::Memcpy | Self::VerbsAlone) {
            sides.push(self.spawn(group, scale, 1, theirs, Stdio::null())?);
        }
        let stdout = sides[0].stdout().context("no output to read")?;
        let reader = std::thread::spawn(move || {
            let lines = BufReader::new(stdout).lines();
            lines.map(|line| Ok(serde_json::from_str(&line?)?)).collect::<Result<Vec<Measure>>>()
        });
        child::wait_all(&mut sides, Instant::now() + PART_MAX)?;
        reader.join().map_err(|_| anyhow!("the reader of the output panicked"))?
    }

    fn spawn(self, group: Group, scale: Scale, side: u8, socket: UnixStream, out: Stdio) -> Result<Child> {
        let mut command = Command::new(std::env::current_exe().context("who am I?")?);
        command.arg("side").arg(name(&self)).arg(side.to_string()).arg(name(&scale));
        command.env("GLASSNIC_DEVICES", "glass0=lo");
        if self == Self::VerbsUnrecorded {
            command.env("GLASSNIC_RECORDER", "0");
        }
        match group {
            Group::Udp => command.env("GLASSNIC_LINK", "udp"),
            Group::Memory | Group::Shm => command.env("GLASSNIC_LINK", "shm"),
        };
        command.stdin(Stdio::from(OwnedFd::from(socket))).stdout(out);
        Child::spawn_on(side.into(), &mut command)
    }
}

fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|v| v.get_name().to_owned()).unwrap_or_default()
}

/// One process of a measurement.
#[derive(Args)]
pub(crate) struct Side {
    part: Part,
    side: u8,
    scale: Scale,
}

impl Side {
    /// Does its half.
    ///
    /// # Errors
    /// Whatever keeps the measurement from a result.
    pub(crate) fn run(&self) -> Result<()> {
        let socket = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
        socket.set_read_timeout(Some(PART_MAX))?;
        let mut partner = Partner { socket: BufReader::new(socket), first: self.side == 0 };
        match self.part {
            Part::Memcpy => limits::memcpy(self.scale),
            Part::Ring => limits::ring(&mut partner, self.scale),
            Part::SingleCopy => limits::single_copy(&mut partner, self.scale),
            Part::Udp => udp::measure(&mut partner, self.scale, false),
            Part::UdpOffload => udp::measure(&mut partner, self.scale, true),
            Part::VerbsAlone => verbs::alone(self.scale),
            Part::Verbs | Part::VerbsUnrecorded => verbs::pair(&mut partner, self.scale),
        }
    }
}

/// The other process.
pub(crate) struct Partner {
    socket: BufReader<UnixStream>,
    /// We are the one that measures.
    pub first: bool,
}

impl Partner {
    /// Tells our value and hears the other's.
    ///
    /// # Errors
    /// The other is gone or silent.
    pub(crate) fn exchange<T: Serialize + DeserializeOwned>(&mut self, ours: &T) -> Result<T> {
        let mut line = serde_json::to_vec(ours)?;
        line.push(b'\n');
        self.socket.get_mut().write_all(&line)?;
        let mut theirs = String::new();
        match self.socket.read_line(&mut theirs).context("the other process is silent")? {
            0 => bail!("the other process is gone"),
            _ => Ok(serde_json::from_str(&theirs)?),
        }
    }

    /// Waits, asleep, until both are here.
    ///
    /// # Errors
    /// As [`Partner::exchange`].
    pub(crate) fn meet(&mut self) -> Result<()> {
        self.exchange(&())
    }
}

/// Tells the parent.
///
/// # Errors
/// The parent is gone.
pub(crate) fn tell(measure: &Measure) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(measure)?)?;
    Ok(out.flush()?)
}
