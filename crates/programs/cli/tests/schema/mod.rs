//! Checks JSON against the published schemas.

use std::fs;
use std::path::Path;

use jsonschema::Validator;
use serde_json::Value;

/// The published schema of this name.
pub struct Published(Validator);

impl Published {
    pub fn named(name: &str) -> Self {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs");
        let schema = fs::read_to_string(docs.join(format!("{name}.schema.json"))).unwrap();
        Self(jsonschema::validator_for(&schema.parse().unwrap()).unwrap())
    }

    #[track_caller]
    pub fn holds(&self, answer: &Value) {
        let errors: Vec<String> = self.0.iter_errors(answer).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?}");
    }
}
