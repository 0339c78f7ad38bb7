//! The `glassnic` command: run programs on the NIC, look at its devices, see a demonstration.

#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "they panic when their reader goes away: see out"
)]

mod capture;
mod catalogue;
mod decode;
mod demo;
mod devices;
mod doctor;
mod draw;
mod event;
mod follow;
mod help;
mod libdir;
mod look;
mod man;
mod out;
mod packets;
mod profiles;
mod program;
mod run;
mod trace;

use std::env;
use std::ffi::OsString;
use std::fmt::Display;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{FromArgMatches, Parser, Subcommand};
use glassnic_explain::{Lang, both};
use glassnic_verbs::Words;

/// A command that was used wrongly or could not do its work ends with this status, as is usual
/// (grep(1), getopt(1)).
const EXIT_USAGE: u8 = 2;

/// Run unmodified RDMA programs on a NIC made of software, and see inside it.
///
/// No RDMA hardware, kernel module, root or daemon is needed: programs find GlassNIC's own
/// libibverbs.so.1 through LD_LIBRARY_PATH, which `glassnic run` sets for them.
#[derive(Parser)]
#[command(name = "glassnic", version, after_help = ENVIRONMENT)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Task,
}

const ENVIRONMENT: &str = "\
Environment:
  GLASSNIC_DEVICES  devices and their interfaces, as in glass0=eth0,glass1=lo
  GLASSNIC_PROFILE  the device to pass for: see glassnic profiles
  GLASSNIC_LINK     udp or shm: the only way packets may take
  GLASSNIC_EXPLAIN  1 or json: a program prints why it was refused something, and what it leaves; 0: it does not
  GLASSNIC_LANG     en or zh: the language of explanations and views; default: that of the locale
  GLASSNIC_LIBDIR   folder with libibverbs.so.1 and librdmacm.so.1
  GLASSNIC_DIR      folder in which processes find each other
  GLASSNIC_CAPTURE  folder in which a process writes its packets, as pcapng; glassnic capture sets it
  GLASSNIC_KEEP     1: keep what a NIC did to be looked at after its program closed it
  GLASSNIC_UCX      0: leave UCX alone, which then looks for /dev/infiniband/uverbs0 in vain
  GLASSNIC_RECORDER 0: no flight recorder, to see what it costs";

#[derive(Subcommand)]
enum Task {
    /// Run a program on GlassNIC
    ///
    /// Refusals are explained on standard error. Signals and the exit status are the program's own; it
    /// is 127 if there is no such program and 126 if it cannot be run, as in a shell.
    #[command(arg_required_else_help = false)]
    Run {
        /// Let the program find the device below /sys/class/infiniband and /dev/infiniband too, in namespaces of its own
        #[arg(long)]
        sysfs: bool,
        /// The program and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
        command: Vec<OsString>,
    },
    /// Show the devices, their GIDs and the reason for each
    ///
    /// Like ibv_devinfo(1), and why: why this interface, why this MTU, why a GID stands at its index, which ways packets
    /// may take, and what is in their way.
    Devices {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Capture packets and command records of programs on one clock, for Wireshark
    ///
    /// Packets between processes of this host, which no interface sees, are written as they would look on a wire; each once, by
    /// the process that sends it, or that gets it from another host. Command records are the capture's second interface
    /// (link type USER0); wireshark/glassnic.lua dissects them. Where something was refused, a packet comment says what.
    Capture {
        /// The pcapng file
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
        /// A process that runs, and that opened a device; may be given several times
        #[arg(long, value_name = "PID", conflicts_with = "command", required_unless_present = "command")]
        pid: Vec<u32>,
        /// With --pid: end after so many seconds, else with the processes
        #[arg(long, value_name = "N", requires = "pid")]
        seconds: Option<u64>,
        /// A program and its arguments, which runs as with glassnic run
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
        command: Vec<OsString>,
    },
    /// Say what a frame is, byte for byte: a hexadecimal dump, or a pcap or pcapng file
    ///
    /// RoCEv2 packets: every header, the length of the payload, and whether the ICRC is right. Command records: opcode, QPN,
    /// handle and the opcode's fields. And what is odd about a frame. One frame is shown in full, several with a line for
    /// each; JSON has one object a line.
    Decode {
        /// The file; - is standard input
        file: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Say what is wrong with the NICs of running and crashed programs, and what to change
    ///
    /// Heaviest first: what is wrong, how that is known, and what to change. Without a PID or a program all NICs of this user are
    /// looked at, both ends of a connection together. A program runs as with glassnic run, and is looked at until its
    /// end. The exit status is 0 if nothing is wrong, 1 if something is, and 2 if the command was used wrongly.
    Doctor {
        #[command(flatten)]
        how: doctor::How,
    },
    /// Let two stock programs talk and tell what their queue pairs do
    ///
    /// A server and a client run side by side. Each line is an entry that one of their NICs made in its flight recorder,
    /// read from outside while they run: the time since the first, the side, the object, what became of it, and by
    /// which call.
    Demo,
    /// List the devices that GlassNIC can pass for, or print the file of one
    ///
    /// A profile sets a device's limits and manners: GLASSNIC_PROFILE=irdma refuses what Intel's E810 refuses. Each is a
    /// small file; copy one, change it, and name its path.
    Profiles {
        /// The profile, or the path of your own to check it
        name: Option<String>,
    },
    /// List the processes with a NIC
    ///
    /// All of this user, from outside: a program is not disturbed. Processes that died with their NIC open stay in the
    /// list, marked as crashed, and so do their objects, until eight newer ones did the same.
    Ps {
        #[command(flatten)]
        view: look::View,
    },
    /// Look at queue pairs
    Qp {
        #[command(subcommand)]
        task: look::QpTask,
    },
    /// Look at completion queues
    Cq {
        #[command(subcommand)]
        task: look::ListTask,
    },
    /// Look at memory regions
    Mr {
        #[command(subcommand)]
        task: look::ListTask,
    },
    /// Look at memory windows
    Mw {
        #[command(subcommand)]
        task: look::ListTask,
    },
    /// Look at protection domains
    Pd {
        #[command(subcommand)]
        task: look::ListTask,
    },
    /// Look at shared receive queues
    Srq {
        #[command(subcommand)]
        task: look::ListTask,
    },
    /// Look at address handles
    Ah {
        #[command(subcommand)]
        task: look::ListTask,
    },
    /// Tell each control verb as it happens: record, doorbell, device, what changed in the context
    ///
    /// From outside, out of the flight recorders: of a program that is run for it, whose exit status it ends with; of a
    /// process; or of all processes that run, until interrupted. Records that were overwritten before they could be read
    /// are counted.
    Trace {
        #[command(flatten)]
        options: trace::Options,
    },
    /// Draw the life of a program's queue pairs, as SVG
    ///
    /// Their states and traffic over time, and the four operations as operations on a list, beside what driver and device
    /// did: of a program that is run for it, of a process as far back as its recorder goes, or of all that there is. QPs
    /// that did the same are drawn as one. With --dot the state machine itself, for Graphviz.
    Draw {
        #[command(flatten)]
        options: draw::Options,
    },
    /// Let an asynchronous event happen on NICs of programs that run
    ///
    /// The program reads it as with hardware, by ibv_get_async_event(3): a port that goes down, a GID table that changes, a
    /// device that fails. Prints a line for each NIC where it happened.
    Event {
        #[command(flatten)]
        options: event::Options,
    },
    /// Print the folder of GlassNIC's libraries, for LD_LIBRARY_PATH
    Libdir,
    /// Write the catalogue of explanations into a folder, a page a language
    #[command(hide = true)]
    Catalogue {
        /// The folder
        folder: PathBuf,
    },
    /// Write the man pages into a folder
    #[command(hide = true)]
    Man {
        /// The folder
        folder: PathBuf,
    },
}

fn main() -> ExitCode {
    let parsed = help::command(lang()).try_get_matches().and_then(|words| Cli::from_arg_matches(&words));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let done = |()| 0;
    let result = match cli.command {
        Task::Run { sysfs, command } => return run::run(&command, sysfs),
        Task::Devices { json } => devices::devices(json).map(done),
        Task::Capture { output, pid, seconds, .. } if !pid.is_empty() => {
            capture::processes(&output, &pid, seconds)
        }
        Task::Capture { output, command, .. } => capture::program(&output, &command),
        Task::Decode { file, json } => decode::decode(&file, json).map(done),
        Task::Doctor { how } => doctor::doctor(&how),
        Task::Demo => demo::demo(),
        Task::Profiles { name } => profiles::profiles(name.as_deref()).map(done),
        Task::Ps { view } => look::ps(view).map(done),
        Task::Qp { task } => look::qp(&task).map(done),
        Task::Cq { task } => look::list(look::Kind::Cq, &task).map(done),
        Task::Mr { task } => look::list(look::Kind::Mr, &task).map(done),
        Task::Mw { task } => look::list(look::Kind::Mw, &task).map(done),
        Task::Pd { task } => look::list(look::Kind::Pd, &task).map(done),
        Task::Srq { task } => look::list(look::Kind::Srq, &task).map(done),
        Task::Ah { task } => look::list(look::Kind::Ah, &task).map(done),
        Task::Trace { options } => trace::trace(&options),
        Task::Draw { options } => draw::draw(&options),
        Task::Event { options } => event::event(&options),
        Task::Libdir => libdir::print().map(done),
        Task::Catalogue { folder } => catalogue::write(&folder).map(done),
        Task::Man { folder } => man::write(&folder).map(done),
    };
    match result {
        Ok(status) => ExitCode::from(status),
        Err(why) => fail(&why, EXIT_USAGE),
    }
}

/// The language of explanations: `GLASSNIC_LANG`, else that of the locale.
fn lang() -> Lang {
    let value = |name| env::var(name).ok();
    let locale = ["LC_ALL", "LC_MESSAGES", "LANG"].map(value);
    Lang::choose(value("GLASSNIC_LANG").as_deref(), locale.iter().map(Option::as_deref))
}

/// What is wrong with a file, a program or an attempt.
fn fault(what: impl Display, error: &impl Words) -> String {
    both!(lang(), "{what}: {}", "{what}：{}", error.in_words(lang()))
}

/// Help and version as clap prints them; an error of use in one line.
fn usage(error: &clap::Error) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        // Nothing is left to do if standard output is closed.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return fail(
            lang().pick("no command given; see glassnic --help", "没有给出命令；见 glassnic --help"),
            EXIT_USAGE,
        );
    }
    let text = error.render().to_string();
    let what: Vec<&str> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    let what = what.join(" ");
    let what = what.strip_prefix("error: ").unwrap_or(&what);
    let said = match lang() {
        Lang::Zh => {
            format!("{}；见 glassnic --help", help::wrong_use(error).as_deref().unwrap_or(what))
        }
        _ => format!("{what}; see glassnic --help"),
    };
    fail(&said, EXIT_USAGE)
}

/// Prints one line and gives the exit status.
fn fail(why: &str, status: u8) -> ExitCode {
    out::say(why);
    ExitCode::from(status)
}
