//! The report page in a real browser: it opens without a network, its script runs without errors, and it renders at
//! both widths.

use std::path::Path;
use std::process::{Command, Output};

use crate::support::{PLAN, bench, expect, skip};

fn chromium(folder: &Path, words: &[&str], page: &Path) -> Option<Output> {
    let program = ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok())?;
    let output = Command::new(program)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--enable-logging=stderr", "--virtual-time-budget=3000"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .args(words)
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    Some(output)
}

#[test]
fn the_page_works_offline_in_a_browser_at_1280_and_400_pixels() {
    let Some(bench) = bench("page in a browser") else { return };
    bench.plan(PLAN);
    expect(&bench.run(&["run", "plan.toml"]), 0, &[]);
    let page = bench.out().join("plan-1/report.html");
    let folder = bench.folder.path();
    let Some(output) = chromium(folder, &["--dump-dom"], &page) else {
        return skip("page in a browser", "chromium is not installed");
    };
    let dom = String::from_utf8_lossy(&output.stdout);
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(!log.contains("CONSOLE"), "the page complains: {log}");
    // The script turns the keys of the legend into switches.
    assert!(dom.contains("aria-pressed=\"true\""), "the script did not run");
    for word in ["<svg", "<table", "TCP goodput", "null transport"] {
        assert!(dom.contains(word), "no {word:?} in the page");
    }
    for address in ["src=\"http", "href=\"http", "url(http", "@import"] {
        assert!(!dom.contains(address), "the page asks the network: {address}");
    }
    for width in [1280, 400] {
        let picture = folder.join(format!("{width}.png"));
        let screenshot = format!("--screenshot={}", picture.display());
        let window = format!("--window-size={width},1600");
        chromium(folder, &[&screenshot, &window], &page).unwrap();
        let bytes = std::fs::metadata(&picture).unwrap().len();
        // A blank page of that size takes less than 10 kB.
        assert!(bytes > 30_000, "the picture of {width} pixels has {bytes} bytes");
    }
}
