//! What a picture tells: the lives of QPs, made of flight records.

use glassnic_events::{QpState, QpType};
use glassnic_explain::Lang;
use glassnic_wire::command::{CommandOpcode, CommandRecord, body};

use crate::trace::{EventModel, Step, Tracer, Verb};
use crate::words::{body_of, name};

/// A NIC that is drawn.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its process.
    pub pid: u32,
    /// Its command line.
    pub command: String,
    /// Its device.
    pub device: String,
    /// Its flight records, oldest first.
    pub records: Vec<CommandRecord>,
}

/// The lives of the QPs of some NICs.
#[derive(Clone, Debug, Default)]
pub(super) struct Story {
    pub(super) lives: Vec<Life>,
    /// In the order of time.
    pub(super) ops: Vec<Op>,
    pub(super) began_ns: u64,
    pub(super) ended_ns: u64,
    /// Records that were overwritten before they were read.
    pub(super) lost: u64,
}

/// A QP from its creation to its end, or to where the records end.
#[derive(Clone, Debug)]
pub(super) struct Life {
    pub(super) pid: u32,
    pub(super) qpn: u32,
    pub(super) qp_type: String,
    /// States, with the times of their beginnings.
    pub(super) states: Vec<(u64, QpState)>,
    pub(super) destroyed_ns: Option<u64>,
    pub(super) marks: Vec<Mark>,
}

/// Something that happened in a life.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    pub(super) at_ns: u64,
    pub(super) kind: MarkKind,
    /// A word or two.
    pub(super) word: String,
    /// All of it, for what went wrong.
    pub(super) why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MarkKind {
    Post,
    PacketOut,
    PacketIn,
    Wrong,
}

/// One of the four operations on the list of QPs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpKind {
    Insert,
    Change,
    LookUp,
    Remove,
}

/// An operation, and what came of it.
#[derive(Clone, Debug)]
pub(super) struct Op {
    pub(super) kind: OpKind,
    /// Index of its QP's life.
    pub(super) life: usize,
    /// The state that it left the QP in.
    pub(super) state: QpState,
    pub(super) verb: Verb,
}

impl Life {
    /// States one after the other, without times.
    pub(super) fn path(&self) -> Vec<QpState> {
        self.states.iter().map(|(_, state)| *state).collect()
    }

    pub(super) fn began_ns(&self) -> u64 {
        self.states.first().map_or(0, |(at, _)| *at)
    }

    pub(super) fn wrongs(&self) -> impl Iterator<Item = &Mark> {
        self.marks.iter().filter(|mark| mark.kind == MarkKind::Wrong)
    }
}

impl Story {
    pub(super) fn of(lang: Lang, sources: &[Source]) -> Self {
        let mut story = Self::default();
        for source in sources {
            Teller { lang, pid: source.pid, first: story.lives.len(), story: &mut story }.tell(source);
        }
        story.ops.sort_by_key(|op| op.verb.at_ns);
        let records = || sources.iter().flat_map(|source| &source.records).map(CommandRecord::timestamp_ns);
        (story.began_ns, story.ended_ns) = (records().min().unwrap_or(0), records().max().unwrap_or(0));
        story
    }
}

/// Makes the lives of one NIC.
struct Teller<'a> {
    lang: Lang,
    pid: u32,
    story: &'a mut Story,
    /// Index of the first life of this NIC.
    first: usize,
}

impl Teller<'_> {
    fn tell(&mut self, source: &Source) {
        let mut tracer = Tracer::new(self.lang, source.pid);
        for record in &source.records {
            // Verbs come when their end has: with the record after it.
            let steps = tracer.feed(std::slice::from_ref(record));
            steps.into_iter().for_each(|step| self.step(step));
            self.note(record);
        }
        let mut steps = tracer.feed(&[]);
        steps.extend(tracer.finish());
        steps.into_iter().for_each(|step| self.step(step));
    }

    /// Index of the life that a number belongs to at this time: the newest of those that had it.
    fn life(&mut self, qpn: u32, at_ns: u64) -> usize {
        // Its beginning may be no more in the recorder.
        self.known(qpn).unwrap_or_else(|| self.begin(qpn, at_ns, "?".to_owned()))
    }

    fn known(&self, qpn: u32) -> Option<usize> {
        let own = self.story.lives.get(self.first..)?;
        own.iter().rposition(|life| life.qpn == qpn).map(|index| index + self.first)
    }

    fn begin(&mut self, qpn: u32, at_ns: u64, qp_type: String) -> usize {
        let states = vec![(at_ns, QpState::Reset)];
        let life = Life { pid: self.pid, qpn, qp_type, states, destroyed_ns: None, marks: Vec::new() };
        self.story.lives.push(life);
        self.story.lives.len() - 1
    }

    /// What a record says of states and traffic.
    fn note(&mut self, record: &CommandRecord) {
        let (qpn, at_ns) = (record.qpn(), record.timestamp_ns());
        let Ok(opcode) = record.opcode() else { return };
        if qpn == 0 {
            return;
        }
        match opcode {
            CommandOpcode::CreateQp => {
                let qp_type = name::<QpType>(body_of::<body::CreateQp>(record).qp_type);
                self.begin(qpn, at_ns, qp_type);
            }
            CommandOpcode::StateMoved => {
                let to = QpState::try_from(u32::from(body_of::<body::StateMoved>(record).to_state));
                let index = self.life(qpn, at_ns);
                self.story.lives[index].states.extend(to.ok().map(|to| (at_ns, to)));
            }
            CommandOpcode::DestroyQp => {
                let index = self.life(qpn, at_ns);
                self.story.lives[index].destroyed_ns = Some(at_ns);
            }
            CommandOpcode::FirstPost => {
                let side = body_of::<body::Traffic>(record).side;
                let word = match side {
                    0 => self.lang.pick("first send", "首个发送"),
                    _ => self.lang.pick("first receive", "首个接收"),
                };
                self.mark(qpn, at_ns, MarkKind::Post, word.to_owned(), String::new());
            }
            CommandOpcode::FirstPacketSent => {
                let word = self.lang.pick("packet out", "报文发出").to_owned();
                self.mark(qpn, at_ns, MarkKind::PacketOut, word, String::new());
            }
            CommandOpcode::FirstPacketReceived => {
                let word = self.lang.pick("packet in", "报文收到").to_owned();
                self.mark(qpn, at_ns, MarkKind::PacketIn, word, String::new());
            }
            _ => {}
        }
    }

    fn mark(&mut self, qpn: u32, at_ns: u64, kind: MarkKind, word: String, why: String) {
        let index = self.life(qpn, at_ns);
        self.story.lives[index].marks.push(Mark { at_ns, kind, word, why });
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Lost { records, .. } => self.story.lost += records,
            Step::Event(event) => self.event(&event),
            Step::Verb(verb) => self.verb(*verb),
        }
    }

    fn event(&mut self, event: &EventModel) {
        const WRONG: [CommandOpcode; 5] = [
            CommandOpcode::FirstError,
            CommandOpcode::NakSent,
            CommandOpcode::NakReceived,
            CommandOpcode::Timeout,
            CommandOpcode::PacketDropped,
        ];
        let Some(qpn) = event.qpn.filter(|_| WRONG.iter().any(|opcode| opcode.name() == event.record)) else {
            return;
        };
        let why = format!("{}{}{}", event.what, self.lang.pick(": ", "："), event.how);
        self.mark(qpn, event.at_ns, MarkKind::Wrong, event.what.clone(), why);
    }

    fn verb(&mut self, verb: Verb) {
        let Some(qpn) = verb.qpn else { return };
        if verb.status.errno != 0 {
            // A call on a number that no QP has is about no life.
            if self.known(qpn).is_none() {
                return;
            }
            let word = verb.status.name.clone().unwrap_or_default();
            let why = verb.status.explanation.clone().unwrap_or_else(|| verb.call.clone());
            self.mark(qpn, verb.at_ns, MarkKind::Wrong, word, why);
        }
        let kind = match verb.call.as_str() {
            "ibv_create_qp" => OpKind::Insert,
            "ibv_modify_qp" | "glassnic_safe_modify" => OpKind::Change,
            "ibv_query_qp" => OpKind::LookUp,
            "ibv_destroy_qp" => OpKind::Remove,
            _ => return,
        };
        let life = self.life(qpn, verb.at_ns);
        let moved = self.story.lives[life].states.iter().rev();
        // The verb is whole only when later records have been noted: the state is the one that it came to.
        let end = verb.at_ns.saturating_add(u64::from(verb.took_ns.unwrap_or(0)));
        let state = moved.clone().find(|(at, _)| *at <= end).map_or(QpState::Reset, |(_, state)| *state);
        self.story.ops.push(Op { kind, life, state, verb });
    }
}
