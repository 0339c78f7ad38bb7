//! Frames as they come: one in full, several with a line for each; as JSON, one object a line.

use std::io::{self, BufWriter, Stdout, Write};

use glassnic_explain::Lang;
use glassnic_wire::dissect::dissect;

use super::{Seen, model, text};
use crate::out::{self, Reader};

/// Frames, and bytes of them, that are held back until it is known whether there is one that we know, and another.
const HELD: usize = 1000;
const HELD_BYTES: usize = 1 << 24;

/// Shows frames one after the other, and keeps none but the first few.
pub(super) struct Shower {
    lang: Lang,
    json: bool,
    out: BufWriter<Stdout>,
    held: Vec<Held>,
    held_bytes: usize,
    /// Nothing is held back any more.
    flows: bool,
    count: usize,
    has_found: bool,
    first_ns: Option<u64>,
    first_problem: Option<String>,
}

/// A frame without the file that it is in.
struct Held {
    number: usize,
    time_ns: Option<u64>,
    sent_len: usize,
    bytes: Vec<u8>,
    link: Option<glassnic_wire::dissect::Link>,
    problem: Option<String>,
}

impl Held {
    fn of(seen: &Seen<'_>) -> Self {
        Self {
            number: seen.number,
            time_ns: seen.time_ns,
            sent_len: seen.sent_len,
            bytes: seen.bytes.to_vec(),
            link: seen.link,
            problem: seen.found.as_ref().err().cloned(),
        }
    }

    fn seen(&self) -> Seen<'_> {
        let Self { number, time_ns, sent_len, link, .. } = *self;
        let problem = || self.problem.clone().unwrap_or_default();
        let found = match (link, &self.problem) {
            (Some(link), None) => dissect(link, &self.bytes, sent_len).map_err(|_| problem()),
            _ => Err(problem()),
        };
        Seen { number, time_ns, sent_len, bytes: &self.bytes, link, found }
    }
}

impl Shower {
    pub(super) fn new(lang: Lang, json: bool) -> Self {
        Self {
            lang,
            json,
            out: BufWriter::new(io::stdout()),
            held: Vec::new(),
            held_bytes: 0,
            flows: false,
            count: 0,
            has_found: false,
            first_ns: None,
            first_problem: None,
        }
    }

    /// How many there were.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Whether there was one that is RoCEv2 or a command record.
    pub(super) fn has_found(&self) -> bool {
        self.has_found
    }

    /// Why the first one that is neither is not.
    pub(super) fn first_problem(&self) -> Option<String> {
        self.first_problem.clone()
    }

    /// Takes the next one.
    ///
    /// # Errors
    /// In a line, why standard output cannot be written.
    pub(super) fn take(&mut self, seen: &Seen<'_>) -> Result<Reader, String> {
        self.count += 1;
        if self.count == 1 {
            self.first_ns = seen.time_ns;
        }
        match &seen.found {
            Ok(_) => self.has_found = true,
            Err(why) => drop(self.first_problem.get_or_insert_with(|| why.clone())),
        }
        if self.flows {
            return out::written(self.one(seen));
        }
        self.held.push(Held::of(seen));
        self.held_bytes += seen.bytes.len();
        if (self.has_found && self.count > 1) || self.count >= HELD || self.held_bytes >= HELD_BYTES {
            self.flows = true;
            return out::written(self.let_go());
        }
        Ok(Reader::Reads)
    }

    /// There will be no more. Where nothing is known, and few were held back, nothing is shown.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub(super) fn finish(&mut self) -> Result<Reader, String> {
        let shown = if self.has_found { self.let_go() } else { Ok(()) };
        out::written(shown.and_then(|()| self.out.flush()))
    }

    fn let_go(&mut self) -> io::Result<()> {
        let held = std::mem::take(&mut self.held);
        held.iter().try_for_each(|held| self.one(&held.seen()))
    }

    fn one(&mut self, seen: &Seen<'_>) -> io::Result<()> {
        let lang = self.lang;
        match (self.json, self.flows) {
            (true, _) => writeln!(self.out, "{}", model::json(lang, seen)),
            (false, true) => writeln!(self.out, "{}", text::line(lang, seen, self.first_ns)),
            (false, false) => write!(self.out, "{}", text::full(lang, seen)),
        }
    }
}
