//! The cases of the catalogue: small C programs that provoke an explanation, and what people report of which they are examples.
//!
//! A program says of itself in its first comment, a line a fact, `key: value`:
//!
//! | key | value |
//! |---|---|
//! | `rows` | what it is an example of: names of [`Row`]s |
//! | `en`, `zh` | the mistake, in a few words |
//! | `rule`, `check` | the name of a [`Rule`](glassnic_events::Rule) that it breaks, of a [`Check`](glassnic_events::Check) that fails in it |
//! | `says` | what the explanation must contain; `exit:` before it for what the report at exit must |
//! | `profile` | the device it needs, as in `GLASSNIC_PROFILE` |
//! | `doctor` | what a doctor finds in it: the library alone has nothing to refuse |

use crate::Lang;

/// A program of the catalogue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Case {
    /// The name of its file, without `.c`.
    pub name: String,
    /// What it is an example of.
    pub rows: Vec<String>,
    /// The mistake in English.
    pub en: String,
    /// The mistake in Chinese.
    pub zh: String,
    /// Rules that it breaks.
    pub rules: Vec<String>,
    /// Checks that fail in it.
    pub checks: Vec<String>,
    /// What the explanations contain.
    pub says: Vec<String>,
    /// The profile that it needs.
    pub profile: Option<String>,
    /// What a doctor finds.
    pub doctor: Vec<String>,
}

impl Case {
    /// Reads the first comment of a program.
    ///
    /// # Errors
    /// One line, when a line is no fact, or one that a case needs is missing.
    pub fn parse(name: &str, source: &str) -> Result<Self, String> {
        let mut case = Self { name: name.to_owned(), ..Self::default() };
        let comment = source.strip_prefix("/*").and_then(|text| text.split_once("*/"));
        let (comment, _) = comment.ok_or_else(|| format!("{name}: does not begin with a comment"))?;
        let lines = comment.lines().map(|line| line.trim_start_matches([' ', '*']).trim());
        for line in lines.filter(|line| !line.is_empty()) {
            let (key, value) = line.split_once(": ").ok_or_else(|| format!("{name}: no fact: {line}"))?;
            let value = value.to_owned();
            match key {
                "rows" => case.rows.extend(value.split(' ').map(str::to_owned)),
                "en" => case.en = value,
                "zh" => case.zh = value,
                "rule" => case.rules.push(value),
                "check" => case.checks.push(value),
                "says" => case.says.push(value),
                "profile" => case.profile = Some(value),
                "doctor" => case.doctor.push(value),
                _ => return Err(format!("{name}: no fact: {line}")),
            }
        }
        if case.rows.is_empty() || case.en.is_empty() || case.zh.is_empty() {
            return Err(format!("{name}: rows, en or zh is missing"));
        }
        if case.says.is_empty() && case.doctor.is_empty() {
            return Err(format!("{name}: nothing is expected of it (says, doctor)"));
        }
        Ok(case)
    }

    /// The mistake.
    pub fn mistake(&self, lang: Lang) -> &str {
        match lang {
            Lang::En => &self.en,
            Lang::Zh => &self.zh,
        }
    }
}

/// Something that people report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its name: a letter and a number.
    pub name: String,
    /// What they meet, in English and in Chinese.
    pub what: [String; 2],
    /// Why no program provokes it, in both, where none does.
    pub without: Option<[String; 2]>,
}

impl Row {
    /// Reads a table: a line a row, `name | English | Chinese`, and for a row without a program the reason in both. Lines that
    /// begin with `#` are for readers of the table.
    ///
    /// # Errors
    /// The first line that is none.
    pub fn parse_all(table: &str) -> Result<Vec<Self>, String> {
        let lines = table.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.map(|line| Self::parse(line).ok_or_else(|| format!("no row: {line}"))).collect()
    }

    fn parse(line: &str) -> Option<Self> {
        let cells: Vec<String> = line.split(" | ").map(|cell| cell.trim().to_owned()).collect();
        let (name, what, without) = match cells.as_slice() {
            [name, en, zh] => (name, [en, zh], None),
            [name, en, zh, why_en, why_zh] => (name, [en, zh], Some([why_en.clone(), why_zh.clone()])),
            _ => return None,
        };
        Some(Self { name: name.clone(), what: what.map(Clone::clone), without })
    }
}

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cases {
    /// The programs, by name.
    pub programs: Vec<Case>,
    /// What people report.
    pub rows: Vec<Row>,
}

impl Cases {
    /// Of programs, each its name and source, and the table of what people report.
    ///
    /// # Errors
    /// One line: what one of them says is none of the above.
    pub fn of(sources: impl IntoIterator<Item = (String, String)>, table: &str) -> Result<Self, String> {
        let programs = sources.into_iter().map(|(name, source)| Case::parse(&name, &source));
        let mut programs: Vec<_> = programs.collect::<Result<_, _>>()?;
        programs.sort_by_key(|case| human_order(&case.name));
        Ok(Self { programs, rows: Row::parse_all(table)? })
    }

    /// The programs that are examples of a row.
    pub fn of_row<'a>(&'a self, row: &'a str) -> impl Iterator<Item = &'a Case> {
        self.programs.iter().filter(move |case| case.rows.iter().any(|name| name == row))
    }

    /// What is wrong with them together, in a line each: a row with neither a program nor a reason, or with both; a program for a
    /// row that is not listed.
    pub fn faults(&self) -> Vec<String> {
        let of_rows =
            self.rows.iter().filter_map(|row| match (self.of_row(&row.name).next(), &row.without) {
                (None, None) => Some(format!("{} has no program, and no reason why", row.name)),
                (Some(case), Some(_)) => {
                    Some(format!("{} has no program, says the table: {}", row.name, case.name))
                }
                _ => None,
            });
        let named = self.programs.iter().flat_map(|case| case.rows.iter().map(move |row| (case, row)));
        let unknown = named.filter(|(_, row)| self.rows.iter().all(|known| known.name != **row));
        of_rows.chain(unknown.map(|(case, row)| format!("{}: no row {row}", case.name))).collect()
    }
}

/// `c2` before `c10`.
fn human_order(name: &str) -> (String, u32, String) {
    let rest = name.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let number = rest[..digits].parse().unwrap_or(0);
    (name[..name.len() - rest.len()].to_owned(), number, name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str =
        "/*\n * rows: M1 M2\n * en: no GRH\n * zh: 没有 GRH\n * rule: NoGrh\n * says: a: b\n */\nint x;";

    #[test]
    fn a_program_says_what_it_is_for() {
        let case = Case::parse("m1", SOURCE).unwrap();
        assert_eq!((case.rows.len(), case.says[0].as_str(), case.mistake(Lang::Zh)), (2, "a: b", "没有 GRH"));
        assert!(Case::parse("m1", &SOURCE.replace("rule", "ruel")).unwrap_err().contains("ruel: NoGrh"));
        assert!(Case::parse("m1", &SOURCE.replace(" * says: a: b\n", "")).is_err());
    }

    #[test]
    fn programs_stand_in_the_order_of_their_numbers() {
        let sources = ["m10_b", "m2_a", "c3"].map(|name| (name.to_owned(), SOURCE.to_owned()));
        let cases = Cases::of(sources, "").unwrap();
        assert_eq!(
            cases.programs.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(),
            ["c3", "m2_a", "m10_b"]
        );
    }

    #[test]
    fn a_row_has_a_program_or_a_reason() {
        let rows = Row::parse_all("# head\nM1 | a | b\nM2 | a | b | c | d\nM3 | a | b\n").unwrap();
        let cases = Cases { programs: vec![Case::parse("m1", SOURCE).unwrap()], rows };
        let faults = cases.faults();
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(faults[0].starts_with("M2") && faults[1].starts_with("M3"), "{faults:?}");
        assert!(Row::parse_all("M1 | a").is_err());
    }
}
