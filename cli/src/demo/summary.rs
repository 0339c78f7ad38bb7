//! What became of each queue pair.

use glassnic_events::{Check, QpState};
use glassnic_explain::{InWords, Lang, both};
use glassnic_verbs::qpc::{Field, Image};
use glassnic_wire::command::{CommandOpcode, CommandRecord, body};

/// The lives of all QPs of all sides, by what was recorded of them.
#[derive(Debug, Default)]
pub(super) struct Lives(Vec<Life>);

#[derive(Debug)]
struct Life {
    side: &'static str,
    qpn: u32,
    created_ns: u64,
    /// When it came to RTS first.
    ready_ns: Option<u64>,
    states: Vec<QpState>,
    destroyed: bool,
    end: Option<End>,
}

/// What a context says at the end.
#[derive(Clone, Copy, Debug)]
struct End {
    sends_posted: u32,
    sends_finished: u32,
    /// Counted in 24 bits.
    messages: u32,
    first_check: u32,
}

impl Lives {
    /// Takes note of a record; those that are not about a QP's life change nothing.
    pub(super) fn note(&mut self, side: &'static str, record: &CommandRecord) {
        let at_ns = record.timestamp_ns();
        match record.opcode() {
            Ok(CommandOpcode::CreateQp) => self.0.push(Life {
                side,
                qpn: record.qpn(),
                created_ns: at_ns,
                ready_ns: None,
                states: vec![QpState::Reset],
                destroyed: false,
                end: None,
            }),
            Ok(CommandOpcode::StateMoved) => {
                let to = record.body::<body::StateMoved>().map_or(0, |b| b.to_state);
                let (Some(life), Ok(to)) =
                    (self.living(side, record.qpn()), QpState::try_from(u32::from(to)))
                else {
                    return;
                };
                life.states.push(to);
                if to == QpState::Rts {
                    life.ready_ns.get_or_insert(at_ns);
                }
            }
            Ok(CommandOpcode::DestroyQp) => {
                let end = record.body::<body::DestroyQp>().map(|b| End {
                    sends_posted: b.sq_tail.get(),
                    sends_finished: b.sq_head.get(),
                    messages: b.msn.get(),
                    first_check: b.first_check.get().into(),
                });
                if let Some(life) = self.living(side, record.qpn()) {
                    life.end = end;
                    life.destroyed = true;
                }
            }
            _ => {}
        }
    }

    /// Takes note of the context of a QP that still is there.
    pub(super) fn note_context(&mut self, side: &'static str, image: &Image) {
        let number = |field| image.get(field) as u32;
        if let Some(life) = self.living(side, number(Field::Qpn)) {
            life.end = Some(End {
                sends_posted: number(Field::SqTail),
                sends_finished: number(Field::SqHead),
                messages: number(Field::Msn),
                first_check: number(Field::FirstCheck),
            });
        }
    }

    fn living(&mut self, side: &'static str, qpn: u32) -> Option<&mut Life> {
        self.0.iter_mut().find(|life| life.side == side && life.qpn == qpn && !life.destroyed)
    }

    /// A line for each.
    pub(super) fn lines(&self, lang: Lang) -> Vec<String> {
        self.0.iter().map(|life| line(lang, life)).collect()
    }
}

/// What a side is called.
pub(super) fn side_name(lang: Lang, side: &str) -> &str {
    match side {
        "server" => lang.pick("server", "服务端"),
        "client" => lang.pick("client", "客户端"),
        other => other,
    }
}

fn line(lang: Lang, life: &Life) -> String {
    let mut states: Vec<_> = life.states.iter().map(|state| state.name()).collect();
    if life.destroyed {
        states.push(lang.pick("destroyed", "已销毁"));
    }
    let ready = match life.ready_ns {
        Some(at) => {
            let ms = at.saturating_sub(life.created_ns) as f64 / 1e6;
            both!(lang, "{ms:.3} ms from creation to RTS", "从创建到 RTS 用时 {ms:.3} ms")
        }
        None => lang.pick("never in RTS", "从未到达 RTS").to_owned(),
    };
    let end = life.end.map_or_else(String::new, |end| {
        let error = match Check::try_from(end.first_check) {
            Ok(Check::None) => lang.pick("no error", "没有错误").to_owned(),
            Ok(check) => both!(lang, "first error: {}", "首个错误：{}", check.in_words(lang)),
            Err(_) => both!(lang, "first error: check {}", "首个错误：检查 {}", end.first_check),
        };
        let End { sends_posted, sends_finished, messages, .. } = end;
        both!(
            lang,
            "; {sends_finished} of {sends_posted} sends finished, {messages} messages came in, {error}",
            "；{sends_posted} 个发送中完成 {sends_finished} 个，收到 {messages} 条消息，{error}"
        )
    });
    let (side, qpn, states) = (side_name(lang, life.side), life.qpn, states.join(" → "));
    both!(lang, "{side} QP {qpn:#x}: {states}, {ready}{end}", "{side} QP {qpn:#x}：{states}，{ready}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note<B: body::Body>(
        lives: &mut Lives,
        side: &'static str,
        at_ns: u64,
        opcode: CommandOpcode,
        body: &B,
    ) {
        let mut record = CommandRecord::with_body(opcode, body).unwrap();
        record.set_qpn(0x12);
        record.set_timestamp_ns(at_ns);
        lives.note(side, &record);
    }

    fn moved(to_state: u8) -> body::StateMoved {
        body::StateMoved { to_state, ..Default::default() }
    }

    #[test]
    fn each_side_has_its_own_lives_even_under_one_number() {
        use CommandOpcode as Op;
        let mut lives = Lives::default();
        for side in ["server", "client"] {
            note(&mut lives, side, 1_000_000, Op::CreateQp, &body::CreateQp::default());
        }
        for (at, state) in [(2_000_000, 1), (3_000_000, 2), (3_500_000, 3), (9_000_000, 6)] {
            note(&mut lives, "client", at, Op::StateMoved, &moved(state));
        }
        let check = Check::RetryExhausted.value() as u16;
        let end = body::DestroyQp {
            sq_tail: 7.into(),
            sq_head: 5.into(),
            first_check: check.into(),
            ..Default::default()
        };
        note(&mut lives, "client", 9_500_000, Op::DestroyQp, &end);
        assert_eq!(
            lives.lines(Lang::En),
            [
                "server QP 0x12: RESET, never in RTS",
                "client QP 0x12: RESET → INIT → RTR → RTS → ERR → destroyed, 2.500 ms from creation to RTS; 5 of 7 \
                 sends finished, 0 messages came in, first error: no acknowledgement within the retries",
            ]
        );
    }
}
