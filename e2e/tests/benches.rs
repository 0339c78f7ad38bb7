//! The benchmarks run from their front door. What is fast is for them to say; that they measure is tested here.

use std::process::Command;

use glassnic_e2e::{product, slot};
use serde_json::Value;

/// What `cargo xtask bench` prints as JSON.
fn bench(words: &[&str]) -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["run", "--quiet", "--package", "xtask", "--", "bench"]).args(words);
    let output = command.current_dir(product::workspace()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {said}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{words:?}: {e}\n{said}"))
}

/// The value of a field of each member of a list.
fn each<'a>(list: &'a Value, field: &'a str) -> impl Iterator<Item = &'a Value> {
    list.as_array().into_iter().flatten().map(move |member| &member[field])
}

fn is_measured(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number.is_finite() && number > 0.0)
}

#[test]
fn control_verbs_are_measured_alone_in_batches_and_in_pipelines() {
    let _slot = slot::take();
    let all = bench(&["control", "--quick", "--json"]);
    assert!(each(&all["ratios"], "ratio").count() >= 5, "{all:#}");
    assert!(each(&all["ratios"], "ratio").all(is_measured), "{all:#}");
    assert!(each(&all["marks"], "value").count() >= 4, "{all:#}");
    assert!(each(&all["marks"], "value").all(is_measured), "{all:#}");
    assert!(each(&all["marks"], "passed").all(Value::is_boolean), "{all:#}");
    assert!(is_measured(&all["lives_per_s"]), "{all:#}");
}

#[test]
fn links_are_measured_beside_their_limits_and_the_recorder_beside_none() {
    let _slot = slot::take();
    let all = bench(&["--quick", "--json", "--no-others"]);
    assert_eq!(all["missing"], Value::Array(Vec::new()), "{all:#}");
    let rows = all["rows"].as_array().unwrap();
    for (link, who) in
        [("memory", "GlassNIC"), ("shm", "GlassNIC"), ("shm", "GlassNIC, recorder off"), ("udp", "GlassNIC")]
    {
        for op in ["SEND", "WRITE", "READ"] {
            let own: Vec<_> = rows
                .iter()
                .filter(|row| row["link"] == link && row["who"] == who && row["op"] == op)
                .collect();
            assert_eq!(own.len(), 3, "{op} over {link} by {who}, in three sizes: {all:#}");
            assert!(own.iter().all(|row| is_measured(&row["value"])), "{all:#}");
            // Within a process there is no message that could be a limit, only a copy.
            let compared =
                |row: &&Value| link == "memory" && row["bytes"] == 8 || is_measured(&row["ratio_to_limit"]);
            assert!(own.iter().all(compared), "{all:#}");
        }
    }
    assert!(each(&all["floors"], "met").all(Value::is_boolean), "{all:#}");
}
