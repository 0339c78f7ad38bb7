//! The catalogue: every rule and every check on one page, with example values.

use core::fmt::Write;

use glassnic_events::{Refusal, errno};

use crate::{Explanation, Lang, explain_first_cause_in, explain_in, samples};

/// The page in this language, as Markdown. It has a section a rule, in the order in which rules are declared, and one a check.
pub fn catalogue(lang: Lang) -> String {
    let mut page = String::new();
    let words = words(lang);
    let mut line = |text: &str| {
        page.push_str(text);
        page.push('\n');
    };
    line(words.title);
    line("");
    line(words.about);
    line("");
    line(words.rules);
    let mut refusals = samples::refusals();
    refusals.sort_by_key(|refusal| refusal.rule.code());
    let mut code = None;
    for refusal in &refusals {
        if code.replace(refusal.rule.code()) != Some(refusal.rule.code()) {
            line("");
            line(&heading(refusal));
            line("");
        }
        // The same rule may have another errno for another field.
        line(&entry(&words, &explain_in(lang, refusal), &format!("[{}]", errno(&refusal.rule))));
    }
    line("");
    line(words.checks);
    line("");
    for cause in samples::causes() {
        let said = explain_first_cause_in(lang, 0x12, &cause);
        let check = cause.check;
        line(&entry(&words, &said, &format!("[{} {check:?}]", check.value())));
    }
    page
}

fn heading(refusal: &Refusal) -> String {
    format!("### {} {}", refusal.rule.code(), refusal.rule.name())
}

fn entry(words: &Words, said: &Explanation, number: &str) -> String {
    let mut text = format!("* `{}` {number}", said.subject);
    // Writing to a string cannot fail.
    let _ = write!(text, "\\\n  {}\\\n  **{}** {}", escaped(&said.what), words.remedy, escaped(&said.remedy));
    if let Some(after) = &said.after {
        let _ = write!(text, "\\\n  {after}");
    }
    text
}

/// Names of constants have underscores, which Markdown would read.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('_', "\\_").replace('*', "\\*")
}

struct Words {
    title: &'static str,
    about: &'static str,
    rules: &'static str,
    checks: &'static str,
    remedy: &'static str,
}

const fn words(lang: Lang) -> Words {
    match lang {
        Lang::En => Words {
            title: "# Why a call is refused, and why a request fails",
            about: "Made from the rules by `glassnic catalogue`; do not edit. The values are examples.",
            rules: "## Rules that a call can break",
            checks: "## Checks that a request can fail",
            remedy: "What to do:",
        },
        Lang::Zh => Words {
            title: "# 调用为何被拒绝，请求为何失败",
            about: "由 `glassnic catalogue` 根据规则生成，请勿手工修改。其中的数值均为示例。",
            rules: "## 调用可能违反的规则",
            checks: "## 请求可能通不过的检查",
            remedy: "解决办法：",
        },
    }
}
