//! Why? From what happened to a cause and a remedy, in plain words.
//!
//! Pure rules over the vocabulary of `glassnic-events`: the engine decides *what* is wrong and hands over the
//! numbers; only the words live here. A refusal becomes one line,
//!
//! ```
//! use glassnic_events::{Call, QpState, Refusal, Rule};
//!
//! let rule = Rule::MtuAbovePort { offered: 4096, active_mtu: 1024, port: 1 };
//! let refusal = Refusal::on_qp(Call::ModifyQp, 0x12, rule).moving(QpState::Init, QpState::Rtr);
//! assert_eq!(
//!     glassnic_explain::explain(&refusal).to_string(),
//!     "ibv_modify_qp(QP 0x12 INIT→RTR): path_mtu=4096 exceeds port 1's active_mtu=1024; use at most 1024; \
//!      the QP stays in INIT"
//! );
//! ```
//!
//! and the first error of a queue pair becomes another ([`explain_first_cause`]), because the completion statuses that a
//! program sees (flush above all) are seldom the cause.

#![forbid(unsafe_code)]

/// A sentence of each language over the same values: `both!(lang, "English", "中文", values…)`, as `format!` has them.
#[macro_export]
macro_rules! both {
    ($lang:expr, $english:literal, $chinese:literal $(, $value:expr)* $(,)?) => {
        match $lang {
            $crate::Lang::Zh => format!($chinese $(, $value)*),
            _ => format!($english $(, $value)*),
        }
    };
}

pub mod cases;
mod catalogue;
mod chinese;
mod english;
pub mod json;
mod samples;
mod system;
#[cfg(test)]
mod tests;

use core::fmt;

pub use catalogue::catalogue;
pub use system::system_error_in;

use glassnic_events::{
    AttrMask, Call, Cause, Check, DropReason, Failure, FirstCause, KeyAccess, Leftover, NakCode, QpState,
    Refusal,
};

/// A language that explanations are written in. Each has one module of sentences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Lang {
    /// English.
    #[default]
    En,
    /// Chinese, as RDMA engineers write it: names of verbs stay as they are.
    Zh,
}

impl Lang {
    /// Every language.
    pub const ALL: &'static [Self] = &[Self::En, Self::Zh];

    /// Its code, as in ISO 639: `en`, `zh`.
    pub const fn code(self) -> &'static str {
        match self {
            Self::En => "en",
            Self::Zh => "zh",
        }
    }

    /// The wording of this language.
    #[must_use]
    pub const fn pick<'a>(self, english: &'a str, chinese: &'a str) -> &'a str {
        match self {
            Self::En => english,
            Self::Zh => chinese,
        }
    }

    /// Between two parts of an explanation.
    const fn semicolon(self) -> &'static str {
        match self {
            Self::En => "; ",
            Self::Zh => "；",
        }
    }

    /// The language to speak: `asked` (the value of `GLASSNIC_LANG`) if it names one, else the first of `locale` that is
    /// not empty. Give it LC_ALL, LC_MESSAGES and LANG, which is their order in POSIX (XBD 8.2). What is not known is English.
    pub fn choose<'a>(asked: Option<&str>, locale: impl IntoIterator<Item = Option<&'a str>>) -> Self {
        let named = |name: &str| {
            let language = name.split(['_', '-', '.', '@']).next().unwrap_or_default();
            Self::ALL.iter().copied().find(|lang| lang.code().eq_ignore_ascii_case(language))
        };
        let locale = locale.into_iter().flatten().find(|value| !value.is_empty());
        asked.and_then(named).or_else(|| locale.and_then(named)).unwrap_or_default()
    }
}

/// Why, in words. Displays as one line: `subject: what; remedy; after`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Explanation {
    /// The call or object that it is about: `ibv_modify_qp(QP 0x12 INIT→RTR)`.
    pub subject: String,
    /// What is wrong, with the values.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
    /// Where the queue pair is after a call that did not move it.
    pub after: Option<String>,
    /// The language of all that.
    pub lang: Lang,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let colon = match self.lang {
            Lang::En => ": ",
            Lang::Zh => "：",
        };
        let semicolon = self.lang.semicolon();
        write!(f, "{}{colon}{}{semicolon}{}", self.subject, self.what, self.remedy)?;
        self.after.iter().try_for_each(|after| write!(f, "{semicolon}{after}"))
    }
}

/// What happened, as a few words of a language.
pub trait InWords: Copy {
    /// The words.
    fn in_words(self, lang: Lang) -> &'static str;
}

impl InWords for Check {
    fn in_words(self, lang: Lang) -> &'static str {
        lang.pick(self.name(), chinese::check::name(self))
    }
}

impl InWords for Cause {
    fn in_words(self, lang: Lang) -> &'static str {
        lang.pick(self.name(), chinese::name::cause(self))
    }
}

impl InWords for NakCode {
    fn in_words(self, lang: Lang) -> &'static str {
        lang.pick(self.name(), chinese::name::nak(self))
    }
}

impl InWords for DropReason {
    fn in_words(self, lang: Lang) -> &'static str {
        lang.pick(self.name(), chinese::name::drop_reason(self))
    }
}

/// What a language says: what is wrong, and what to do about it.
struct Said {
    what: String,
    remedy: String,
}

/// Explains a refused call in English.
pub fn explain(refusal: &Refusal) -> Explanation {
    explain_in(Lang::En, refusal)
}

/// Explains a refused call.
pub fn explain_in(lang: Lang, refusal: &Refusal) -> Explanation {
    let said = match lang {
        Lang::En => english::rule::say(refusal.call, &refusal.rule),
        Lang::Zh => chinese::rule::say(refusal.call, &refusal.rule),
    };
    // Where it is stands in the subject of calls that do not move it.
    let after = refusal.moving.filter(|(from, to)| from != to).map(|(from, _)| stays(lang, from));
    Explanation { subject: subject(refusal), what: said.what, remedy: said.remedy, after, lang }
}

/// Explains in English how a queue pair came into error.
pub fn explain_first_cause(qpn: u32, cause: &FirstCause) -> Explanation {
    explain_first_cause_in(Lang::En, qpn, cause)
}

/// Explains how a queue pair came into error.
pub fn explain_first_cause_in(lang: Lang, qpn: u32, cause: &FirstCause) -> Explanation {
    let said = match lang {
        Lang::En => english::check::say(cause),
        Lang::Zh => chinese::check::say(cause),
    };
    let subject = format!("QP {qpn:#x}");
    Explanation { subject, what: said.what, remedy: said.remedy, after: None, lang }
}

/// The check that failed, in a few words.
pub fn check_in(lang: Lang, check: Check) -> &'static str {
    match lang {
        Lang::En => check.name(),
        Lang::Zh => chinese::check::words(check).0,
    }
}

/// Explains how a queue pair came into error, with the values around it.
pub fn explain_failure_in(lang: Lang, failure: &Failure) -> Explanation {
    let Failure { qpn, state, cause, path, access, peer } = failure;
    let mut said = explain_first_cause_in(lang, *qpn, cause);
    let path = path.filter(|_| concerns_path(cause.check));
    let access = access.filter(|access| access.check == cause.check);
    let (path, access) = match lang {
        Lang::En => {
            (path.map(|p| english::check::path(cause.check, &p)), access.map(|a| english::check::access(&a)))
        }
        Lang::Zh => {
            (path.map(|p| chinese::check::path(cause.check, &p)), access.map(|a| chinese::check::access(&a)))
        }
    };
    let unanswered = matches!(cause.check, Check::RetryExhausted | Check::RnrExhausted);
    let peer = peer.filter(|_| unanswered).and_then(|peer| match lang {
        Lang::En => english::around::peer(cause.check, &peer),
        Lang::Zh => chinese::around::peer(cause.check, &peer),
    });
    let number = format!("vendor_err={}", cause.check.value());
    for more in [access, path, peer, Some(number)].into_iter().flatten() {
        said.what.push_str(lang.semicolon());
        said.what.push_str(&more);
    }
    said.after = Some(match lang {
        Lang::En => format!("the QP is in {state}"),
        Lang::Zh => format!("QP 处于 {state}"),
    });
    said
}

/// When something is found to be left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The program ends.
    Exit,
    /// The program closes the device.
    Close,
}

/// Explains something that is left; `site` are the frames of the place that made it, one a line.
pub fn explain_leftover_in(lang: Lang, end: End, left: &Leftover, site: Option<&str>) -> Explanation {
    let place = site.and_then(|frames| frames.lines().next());
    let (subject, said) = match lang {
        Lang::En => (english::around::end(end), english::around::leftover(left, place)),
        Lang::Zh => (chinese::around::end(end), chinese::around::leftover(left, place)),
    };
    Explanation { subject: subject.to_owned(), what: said.what, remedy: said.remedy, after: None, lang }
}

impl Explanation {
    /// Adds who holds the objects of a limit that is reached: `count` of them from this place.
    pub fn add_holder(&mut self, count: u32, site: &str) {
        let place = site.lines().next().unwrap_or_default();
        self.add(&match self.lang {
            Lang::En => english::around::holder(count, place),
            Lang::Zh => chinese::around::holder(count, place),
        });
    }

    /// Adds which request of a posted list was refused, counted from 0: those before it were taken.
    pub fn add_place_in_list(&mut self, index: u32) {
        self.add(&match self.lang {
            Lang::En => english::around::in_list(index),
            Lang::Zh => chinese::around::in_list(index),
        });
    }

    fn add(&mut self, more: &str) {
        self.what.push_str(self.lang.semicolon());
        self.what.push_str(more);
    }
}

/// Checks that fail at the peer or on the way to it.
fn concerns_path(check: Check) -> bool {
    use Check as C;
    matches!(
        check,
        C::RetryExhausted
            | C::RnrExhausted
            | C::NakInvalidRequest
            | C::NakRemoteAccess
            | C::NakRemoteOperational
            | C::BadResponse
            | C::NoPath
            | C::PeerGone
    )
}

/// A number as C has it: what is below zero there was widened with its sign.
fn signed(value: u64) -> String {
    if value > i64::MAX as u64 { value.cast_signed().to_string() } else { value.to_string() }
}

fn milliseconds(ns: u64) -> String {
    format!("{:.2} ms", ns as f64 / 1e6)
}

/// By how many bytes an access reaches past the end of its region; `None` if it begins before it.
fn overrun(access: &KeyAccess) -> Option<u64> {
    let region = access.region?;
    let end = access.addr.checked_sub(region.start)?.checked_add(access.len)?;
    end.checked_sub(region.len).filter(|over| *over > 0)
}

fn stays(lang: Lang, state: QpState) -> String {
    match lang {
        Lang::En => format!("the QP stays in {state}"),
        Lang::Zh => format!("QP 仍处于 {state}"),
    }
}

/// `ibv_modify_qp(QP 0x12 INIT→RTR)`, `ibv_post_send(QP 0x12 RTS)`: names only, the same in every language.
fn subject(refusal: &Refusal) -> String {
    let call: Call = refusal.call;
    match (refusal.qpn, refusal.moving) {
        (Some(qpn), Some((from, to))) if from == to => format!("{call}(QP {qpn:#x} {from})"),
        (Some(qpn), Some((from, to))) => format!("{call}(QP {qpn:#x} {from}→{to})"),
        (Some(qpn), None) => format!("{call}(QP {qpn:#x})"),
        (None, _) => call.to_string(),
    }
}

/// The field behind a bit of the mask.
fn field(bit: AttrMask) -> &'static str {
    match bit {
        AttrMask::STATE => "qp_state",
        AttrMask::CUR_STATE => "cur_qp_state",
        AttrMask::EN_SQD_ASYNC_NOTIFY => "en_sqd_async_notify",
        AttrMask::ACCESS_FLAGS => "qp_access_flags",
        AttrMask::PKEY_INDEX => "pkey_index",
        AttrMask::PORT => "port_num",
        AttrMask::QKEY => "qkey",
        AttrMask::AV => "ah_attr",
        AttrMask::PATH_MTU => "path_mtu",
        AttrMask::TIMEOUT => "timeout",
        AttrMask::RETRY_CNT => "retry_cnt",
        AttrMask::RNR_RETRY => "rnr_retry",
        AttrMask::RQ_PSN => "rq_psn",
        AttrMask::MAX_QP_RD_ATOMIC => "max_rd_atomic",
        AttrMask::ALT_PATH => "alt_ah_attr, alt_pkey_index, alt_port_num, alt_timeout",
        AttrMask::MIN_RNR_TIMER => "min_rnr_timer",
        AttrMask::SQ_PSN => "sq_psn",
        AttrMask::MAX_DEST_RD_ATOMIC => "max_dest_rd_atomic",
        AttrMask::PATH_MIG_STATE => "path_mig_state",
        AttrMask::CAP => "cap",
        AttrMask::DEST_QPN => "dest_qp_num",
        AttrMask::RATE_LIMIT => "rate_limit",
        _ => "the field behind it",
    }
}
