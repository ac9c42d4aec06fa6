//! `fabricmark lab calibrate`: measures the accuracy of the emulator.

pub mod table;

use std::fs;
use std::thread;
use std::time::Duration;

use fabricmark_control::Peer;
use fabricmark_host::UsageMeter;
use fabricmark_plan::Size;
use fabricmark_record::Calibration;
use fabricmark_store::{Experiment, Facts, Store};
use serde_json::json;

use crate::calibration::{file, folder, keep, kept};
use crate::command::run::{Again, go_on, lock};
use crate::exit::{Code, Failure};
use crate::interrupt::interruptions;
use crate::options::lab::Calibrate;
use crate::output::{answer, parse};

/// Name, file and text of a plan.
macro_rules! plan {
    ($name:literal) => {
        (
            concat!("calibrate-", $name),
            concat!("plans/calibrate/", $name, ".toml"),
            include_str!(concat!("../../../../../../plans/calibrate/", $name, ".toml")),
        )
    };
}
/// The plans, in the order in which they run.
const PLANS: [(&str, &str, &str); 8] = [
    plan!("delay"),
    plan!("loaded"),
    plan!("slow"),
    plan!("rate"),
    plan!("single"),
    plan!("loss"),
    plan!("jitter"),
    plan!("highest"),
];

/// Time to observe other CPU load before each plan. /proc/stat has a resolution of 10 ms: 2 % of two CPUs.
const LOOK: Duration = Duration::from_millis(250);

/// Compares requested with delivered values, stores the result for later runs, and prints it.
pub fn calibrate(options: &Calibrate) -> Result<(), Failure> {
    // The user namespace must be entered before the first thread starts.
    fabricmark_lab::acquire()?;
    let folder = folder()?;
    fs::create_dir_all(&folder).map_err(Failure::output(folder.display()))?;
    let store_file = folder.join("calibration.sqlite");
    let store = Store::open(&store_file)?;
    let _lock = lock(&store_file)?;
    // An experiment begun after the stored calibration was interrupted, and is resumed.
    let since = kept(&folder).map(|kept| kept.at).unwrap_or_default();
    let interrupted = interruptions()?;
    let mut records = Vec::new();
    let mut busy_shares = Vec::new();
    let mut confidence = 0.0;
    for (place, (name, file, text)) in PLANS.into_iter().enumerate() {
        let size = if options.quick { Size::Quick } else { Size::Full };
        let plan = parse(file, text, size)
            .map_err(|problems| Failure::internal(format!("{file} is invalid\n{problems}")))?;
        confidence = plan.stop.confidence;
        let digest = plan.digest();
        let unfinished = store
            .latest_of(&digest)?
            .filter(|found| !options.fresh && found.facts.started.as_str() > since.as_str())
            .filter(|found| began_here(&store, found));
        let experiment = match unfinished {
            Some(found) => found,
            None => begin(&store, options, &digest, (name, file, text))?,
        };
        if !experiment.is_complete {
            let title = &plan.presentation.title;
            note!("{} of {}  {title}", place + 1, PLANS.len());
            busy_shares.extend(busy_share());
            let again = if options.fresh { Again::WithoutFresh } else { Again::Same };
            go_on(&plan, &store, &experiment, &Peer::Here, None, again, &interrupted)?;
        }
        records.extend(store.records(&experiment)?);
    }
    let calibration = Calibration::of(&records, confidence)
        .ok_or_else(|| Failure::new(Code::RunFailed, "no valid run of the calibration"))?
        .beside(&busy_shares);
    keep(&folder, &calibration)?;
    answer(options.json, || json!(calibration), || table::text(&calibration))?;
    note!("saved in {}", file(&folder).display());
    Ok(())
}

/// CPU load of other programs and of the hypervisor, as a share of all CPU time, while nothing runs here.
fn busy_share() -> Option<f64> {
    let meter = UsageMeter::start();
    thread::sleep(LOOK);
    let shares = meter.finish().machine?.all;
    Some(shares.busy() + shares.steal)
}

fn begin(
    store: &Store,
    options: &Calibrate,
    digest: &str,
    (stem, plan_file, plan_text): (&str, &str, &str),
) -> Result<Experiment, Failure> {
    let quickly = if options.quick { " --quick" } else { "" };
    let facts = Facts {
        digest: digest.to_owned(),
        plan_file: plan_file.to_owned(),
        plan_text: plan_text.to_owned(),
        is_quick: options.quick,
        reproduce: format!("fabricmark lab calibrate{quickly} --fresh"),
        started: jiff::Timestamp::now().to_string(),
        instrument: Some(fabricmark_load::instrument()),
        host: None,
        link: None,
    };
    Ok(store.begin(stem, &facts)?)
}

/// Whether the experiment's runs so far were made with this version on this machine.
fn began_here(store: &Store, experiment: &Experiment) -> bool {
    let records = store.records(experiment).unwrap_or_default();
    let Some(first) = records.iter().find(|record| !record.nodes.is_empty()) else { return true };
    first.program == env!("CARGO_PKG_VERSION") && first.nodes[0].host == fabricmark_host::facts()
}
