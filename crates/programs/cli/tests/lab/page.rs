//! The report page in a real browser, read without a network in both widths and colour schemes.

use std::path::Path;

use fabricmark_testkit::playwright;

use crate::support::{PLAN, bench, expect, stderr, stdout};

#[test]
fn the_page_is_read_offline_in_a_browser_at_1280_and_400_pixels_light_and_dark() {
    let test = "page in a browser";
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/page.mjs");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("playwright");
    let Some(mut browser) = playwright(test, &script, &folder) else { return };
    let Some(bench) = bench(test) else { return };
    bench.plan(PLAN);
    bench.carries_out(&["run", "plan.toml"], &[]);
    let output = browser.arg(bench.out().join("plan-1/report.html")).output().unwrap();
    expect(&output, 0, &[]);
    let read = "read at 1280 and 400 px, light and dark";
    assert!(stdout(&output).contains(read), "{}", stderr(&output));
}
