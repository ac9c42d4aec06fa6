//! `fabricmark papers verify`: the papers' claims, on what they print or on an experiment.

use std::process::ExitCode;

use fabricmark_report::{ClaimsView, NoSuchPaper};
use fabricmark_store::Store;

use crate::exit::{Code, Failure};
use crate::options::VerifyPapers;
use crate::output::{Loaded, pretty, print, width};

/// Prints the answers. Claims that fail are an answer, not a failure of the command.
pub fn verify(options: &VerifyPapers) -> Result<ExitCode, Failure> {
    let claims = if options.run.is_empty() {
        ClaimsView::published(&options.papers)?
    } else {
        let store = Store::open_existing(&options.place.store_file())?;
        let load = |name: &String| Loaded::of(&store, &store.find(name)?);
        let loaded = options.run.iter().map(load).collect::<Result<Vec<_>, _>>()?;
        let views: Vec<_> = loaded.iter().map(Loaded::view).collect();
        ClaimsView::of(&views, &options.papers)?
    };
    print(&if options.json { pretty(&claims.json()) } else { claims.text(width()) })?;
    Ok(ExitCode::SUCCESS)
}

impl From<NoSuchPaper> for Failure {
    fn from(error: NoSuchPaper) -> Self {
        Self::new(Code::Input, error.to_string())
    }
}
