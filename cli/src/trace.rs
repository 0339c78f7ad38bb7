//! `glassnic trace`: each control verb as it happens, from the driver's record to the device's status.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use glassnic_inspect::trace::text::{self, Style};
use glassnic_inspect::trace::{Step, Tracer};

use crate::follow::{self, Follower};
use crate::out::{self, Reader};
use crate::{fault, lang};

/// What to trace, and how to say it.
#[derive(Args)]
pub(crate) struct Options {
    /// Only the NICs of this process, from as far back as its recorder goes to its end
    #[arg(long, value_name = "PID", conflicts_with = "command")]
    pid: Option<u32>,
    /// Print JSON, an object a line; standard output of the program then goes to standard error
    #[arg(long)]
    json: bool,
    /// Show the 72 bytes of each record
    #[arg(long)]
    hex: bool,
    /// Tell also what happened besides the verbs: first packets, NAKs, errors
    #[arg(long)]
    all: bool,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// A program and its arguments, which runs as with glassnic run
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Traces. Gives the exit status of the program that was run, else 0.
///
/// # Errors
/// One line.
pub(crate) fn trace(options: &Options) -> Result<u8, String> {
    let mut printer = Printer::new(options)?;
    let status = if options.command.is_empty() {
        follow::processes(options.pid, |follower| printer.look(follower))?
    } else {
        let quiet = options.json && options.output.is_none();
        // The program goes on although nobody reads what it does.
        let prepare = |command: &mut Command| if quiet { follow::quiet(command) } else { Ok(()) };
        follow::program(&options.command, prepare, |follower| printer.look(follower).map(drop))?
    };
    printer.finish()?;
    Ok(status)
}

struct Printer<'a> {
    options: &'a Options,
    out: BufWriter<Box<dyn Write>>,
    /// One for each NIC that is followed.
    tracers: Vec<Tracer>,
    began_ns: Option<u64>,
    reader: Reader,
}

impl<'a> Printer<'a> {
    fn new(options: &'a Options) -> Result<Self, String> {
        let out: Box<dyn Write> = match &options.output {
            Some(path) => Box::new(create(path)?),
            None => Box::new(io::stdout()),
        };
        Ok(Self {
            options,
            out: BufWriter::new(out),
            tracers: Vec::new(),
            began_ns: None,
            reader: Reader::Reads,
        })
    }

    /// Prints what has happened since.
    fn look(&mut self, follower: &Follower) -> Result<Reader, String> {
        for nic in &follower.nics()[self.tracers.len()..] {
            self.tracers.push(Tracer::new(lang(), nic.view.pid()));
        }
        let read = self.tracers.iter_mut().zip(follower.nics());
        let steps = read.flat_map(|(tracer, nic)| tracer.feed(&nic.records(tracer.next()))).collect();
        self.print(steps)
    }

    fn finish(&mut self) -> Result<Reader, String> {
        let steps = self.tracers.iter_mut().flat_map(Tracer::finish).collect();
        self.print(steps)
    }

    fn print(&mut self, mut steps: Vec<Step>) -> Result<Reader, String> {
        if self.reader == Reader::Gone {
            return Ok(self.reader);
        }
        // Stable: what is of one time stays in the order of its recorder.
        steps.sort_by_key(Step::at_ns);
        let result = steps.iter().try_for_each(|step| self.one(step)).and_then(|()| self.out.flush());
        self.reader = match &self.options.output {
            Some(path) => {
                result.map_err(|error| fault(path.display(), &error))?;
                Reader::Reads
            }
            None => out::written(result)?,
        };
        Ok(self.reader)
    }

    fn one(&mut self, step: &Step) -> io::Result<()> {
        let Options { json, hex, all, .. } = *self.options;
        if matches!(step, Step::Event(_)) && !all {
            return Ok(());
        }
        if json {
            return writeln!(self.out, "{}", serde_json::to_string(step)?);
        }
        let began_ns = *self.began_ns.get_or_insert(step.at_ns());
        self.out.write_all(text::write(Style { lang: lang(), hex, began_ns }, step).as_bytes())
    }
}

fn create(path: &Path) -> Result<File, String> {
    File::create(path).map_err(|error| fault(path.display(), &error))
}
