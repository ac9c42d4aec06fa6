mod common;
use common::Fabricated;
#[test]
fn show() {
    let f = Fabricated::full();
    std::fs::write("/tmp/report.html", fabricmark_report::html(&f.experiment())).unwrap();
    for c in fabricmark_report::charts(&f.experiment()) {
        std::fs::write(format!("/tmp/chart-{}", c.name), c.svg).unwrap();
    }
}
