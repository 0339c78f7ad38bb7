//! The catalogue: every rule and every check on one page, with example values and the programs that provoke them.

use core::fmt::Write;

use glassnic_events::{Refusal, errno};

use crate::cases::{Case, Cases};
use crate::{Explanation, Lang, explain_first_cause_in, explain_in, samples};

/// The page in this language, as Markdown. It has a section a rule, in the order in which rules are declared, one a check, and
/// a table of what people report.
pub fn catalogue(lang: Lang, cases: &Cases) -> String {
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
            let name = refusal.rule.name();
            let provoke = cases.programs.iter().filter(|case| case.rules.iter().any(|rule| rule == name));
            let links = links(provoke);
            if !links.is_empty() {
                line(&format!("{} {links}", words.programs));
                line("");
            }
        }
        // The same rule may have another errno for another field.
        line(&entry(&words, &explain_in(lang, refusal), &format!("[{}]", errno(&refusal.rule))));
    }
    line("");
    line(words.checks);
    line("");
    line(words.about_checks);
    line("");
    for cause in samples::causes() {
        let said = explain_first_cause_in(lang, 0x12, &cause);
        let check = cause.check;
        let mut text = entry(&words, &said, &format!("[{} {check:?}]", check.value()));
        let name = format!("{check:?}");
        let links = links(cases.programs.iter().filter(|case| case.checks.contains(&name)));
        if !links.is_empty() {
            text.push_str(&format!("\\\n  {} {links}", words.programs));
        }
        line(&text);
    }
    line("");
    line(words.reports);
    line("");
    line(words.about_reports);
    line("");
    line(words.columns);
    line("|---|---|---|");
    for row in &cases.rows {
        let at = lang as usize;
        let links = links(cases.of_row(&row.name));
        let why =
            row.without.as_ref().map_or(links, |why| format!("{} {}", words.without, escaped(&why[at])));
        line(&format!("| {} | {} | {why} |", row.name, escaped(&row.what[at])));
    }
    page
}

/// The programs, by the names of their files.
fn links<'a>(cases: impl Iterator<Item = &'a Case>) -> String {
    let links: Vec<_> = cases.map(|case| format!("[{}](c/{}.c)", escaped(&case.name), case.name)).collect();
    links.join(", ")
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
    about_checks: &'static str,
    remedy: &'static str,
    programs: &'static str,
    reports: &'static str,
    about_reports: &'static str,
    columns: &'static str,
    without: &'static str,
}

const fn words(lang: Lang) -> Words {
    match lang {
        Lang::En => Words {
            title: "# Why a call is refused, and why a request fails",
            about: "Made from the rules by `glassnic catalogue`; do not edit. The values are examples.",
            rules: "## Rules that a call can break",
            checks: "## Checks that a request can fail",
            about_checks: "A completion holds the number of its check in `vendor_err`.",
            remedy: "What to do:",
            programs: "Programs:",
            reports: "## What people report",
            about_reports: "Each of these has a program in `c/` that provokes it: `cc -o case c/NAME.c -libverbs`, then \
                            `glassnic run ./case broken`, and `glassnic run ./case mended`, which has nothing to say.",
            columns: "| | what people meet | program |",
            without: "none:",
        },
        Lang::Zh => Words {
            title: "# 调用为何被拒绝，请求为何失败",
            about: "由 `glassnic catalogue` 根据规则生成，请勿手工修改。其中的数值均为示例。",
            rules: "## 调用可能违反的规则",
            checks: "## 请求可能通不过的检查",
            about_checks: "完成的 `vendor_err` 就是检查的编号。",
            remedy: "解决办法：",
            programs: "示例程序：",
            reports: "## 用户常遇到的问题",
            about_reports: "每一项在 `c/` 中都有一个能复现它的程序：`cc -o case c/NAME.c -libverbs`，然后运行 \
                            `glassnic run ./case broken`；`glassnic run ./case mended` 是改正后的写法，不输出任何信息。",
            columns: "| | 遇到的问题 | 程序 |",
            without: "无：",
        },
    }
}
