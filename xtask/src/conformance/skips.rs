//! `conformance/skip.toml`, and what it makes of an outcome.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::suite::Outcome;

/// Tests that may skip themselves, for one reason.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
struct Skip {
    /// Why this device or this machine cannot do what they ask.
    why: String,
    /// A part of what the suite itself says when it skips them: another reason is another matter.
    says: String,
    /// It lies with the machine, not the device: elsewhere they may run, and then must pass.
    #[serde(default)]
    machine: bool,
    tests: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    skip: Vec<Skip>,
}

/// The list, by test.
#[derive(Debug)]
pub(crate) struct Skips(BTreeMap<String, Skip>);

/// What an outcome means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It passed.
    Pass,
    /// It skipped itself, and the list says why.
    Skip(String),
    /// It fails the run, for this reason.
    Fault(String),
}

impl Skips {
    /// Reads the list.
    ///
    /// # Errors
    /// When it cannot be read, is no such list, or names a test twice.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("{} is no list of skips", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let file: File = toml::from_str(text)?;
        let mut skips = BTreeMap::new();
        for skip in file.skip {
            if skip.why.is_empty() || skip.says.is_empty() {
                bail!("an empty reason excuses nothing ({})", skip.tests.join(", "));
            }
            for test in &skip.tests {
                if skips.insert(test.clone(), skip.clone()).is_some() {
                    bail!("{test} is listed twice");
                }
            }
        }
        Ok(Self(skips))
    }

    /// What the outcome of a test means.
    pub(crate) fn judge(&self, test: &str, outcome: &Outcome) -> Verdict {
        match (outcome, self.0.get(test)) {
            (Outcome::Pass, Some(skip)) if !skip.machine => {
                Verdict::Fault(format!("passes: take it out of skip.toml, which says: {}", skip.why))
            }
            (Outcome::Pass, _) => Verdict::Pass,
            (Outcome::Skip(said), Some(skip)) if said.contains(&skip.says) => Verdict::Skip(skip.why.clone()),
            (Outcome::Skip(said), Some(skip)) => {
                Verdict::Fault(format!("skips itself, for another reason than \"{}\": {said}", skip.says))
            }
            (Outcome::Skip(said), None) => {
                Verdict::Fault(format!("skips itself, and skip.toml has no line for it: {said}"))
            }
            (Outcome::Fault(said), _) => Verdict::Fault(said.clone()),
        }
    }

    /// Listed tests that the suite does not have.
    pub(crate) fn unknown(&self, suite: &[String]) -> Vec<&str> {
        self.0.keys().map(String::as_str).filter(|test| !suite.iter().any(|known| known == test)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skips() -> Skips {
        Skips::parse(
            r#"
            [[skip]]
            why = "raw packets need the kernel"
            says = "QP type 8"
            tests = ["test_flow.A.a"]

            [[skip]]
            why = "no huge pages"
            says = "huge pages"
            machine = true
            tests = ["test_odp.B.b"]
            "#,
        )
        .unwrap()
    }

    fn skip(said: &str) -> Outcome {
        Outcome::Skip(said.into())
    }

    fn fault(verdict: Verdict) -> String {
        match verdict {
            Verdict::Fault(why) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_listed_test_may_skip_itself_for_the_listed_reason() {
        let said = skip("Create QP type 8 is not supported");
        assert_eq!(
            skips().judge("test_flow.A.a", &said),
            Verdict::Skip("raw packets need the kernel".into())
        );
        let other = fault(skips().judge("test_flow.A.a", &skip("No port is up")));
        assert!(other.contains("another reason") && other.contains("No port is up"), "{other}");
    }

    #[test]
    fn a_skip_that_nobody_listed_is_a_fault() {
        assert!(fault(skips().judge("test_qp.C.c", &skip("no"))).contains("no line"));
        assert_eq!(skips().judge("test_qp.C.c", &Outcome::Pass), Verdict::Pass);
    }

    #[test]
    fn a_listed_test_that_passes_is_a_fault_unless_the_machine_decides() {
        assert!(fault(skips().judge("test_flow.A.a", &Outcome::Pass)).contains("take it out"));
        assert_eq!(skips().judge("test_odp.B.b", &Outcome::Pass), Verdict::Pass);
    }

    #[test]
    fn no_list_excuses_a_failure() {
        let outcome = Outcome::Fault("hang".into());
        assert_eq!(fault(skips().judge("test_odp.B.b", &outcome)), "hang");
    }

    #[test]
    fn a_listed_test_that_is_no_more_is_named() {
        assert_eq!(skips().unknown(&["test_odp.B.b".into()]), ["test_flow.A.a"]);
    }

    #[test]
    fn a_list_without_reasons_or_with_a_test_twice_is_refused() {
        for text in [
            "[[skip]]\nwhy = ''\nsays = 'a'\ntests = ['a']",
            "[[skip]]\nwhy = 'a'\nsays = ''\ntests = ['a']",
            "[[skip]]\nwhy = 'a'\nsays = 'a'\ntests = ['a', 'a']",
            "[[skip]]\nwhy = 'a'\ntests = ['a']",
        ] {
            Skips::parse(text).unwrap_err();
        }
    }

    #[test]
    fn the_list_of_this_tree_is_one() {
        Skips::read(&crate::cargo::root().join(super::super::SKIPS)).unwrap();
    }
}
