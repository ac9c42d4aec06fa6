//! Points, orders, records and a browser for the tests of other crates. Levels are written as for `--vs`; a later level
//! replaces an earlier one of the same factor.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

pub mod documents;

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use fabricmark_plan::{Contradiction, Figure, Point, Role, Testbed, overlay, resolve};
use fabricmark_proto::Prepare;
use fabricmark_record::{
    Carrier, Counts, Drops, Figures, Flow, HostFacts, Limits, Node, Outcome, Place, Provenance,
    Record, SCHEMA_VERSION, Side, Sourced,
};
use fabricmark_units::Nanos;
use fabricmark_wire::Family;

/// The point with these levels, or the contradiction between them.
pub fn try_point(levels: &str) -> Result<Point, Contradiction> {
    resolve(&overlay(levels.trim_matches(',')).unwrap())
}

/// The point with these levels.
pub fn point(levels: &str) -> Point {
    try_point(levels).unwrap()
}

/// A prepare order for one end of a run of 50 ms over loopback, at a port that the kernel chooses.
pub fn prepare(role: Role, levels: &str) -> Prepare {
    let point = point(levels);
    let address = match point.family {
        Family::V4 => IpAddr::from(Ipv4Addr::LOCALHOST),
        Family::V6 => Ipv6Addr::LOCALHOST.into(),
    };
    Prepare {
        run: 1,
        role,
        point,
        duration_ns: Nanos::from_millis(50),
        omit_ns: Nanos(0),
        slice_ns: None,
        amount: None,
        token: [0; 16],
        address,
        scope_id: 0,
        port: 0,
        ports: None,
        from: Vec::new(),
        patience_ns: Nanos(0),
        hold_ns: Nanos(0),
        waits_for_start: false,
        start_ns: Nanos(0),
        more_cpus: Vec::new(),
        host_settings: Vec::new(),
        least_rtt_ns: None,
        forward: None,
        device: "lo".to_owned(),
        cpu: None,
        interval_ns: None,
        response_rate_max: None,
        seed: 1,
        trace: None,
    }
}

/// These figures, with provenance `Measured`.
pub fn figures<const N: usize>(figures: [(Figure, f64); N]) -> Figures {
    let provenance = Provenance::Measured;
    figures.into_iter().map(|(figure, value)| (figure, Sourced { value, provenance })).collect()
}

/// A completed run of a second in a lab, with only client and server as nodes.
pub fn record(point: Point) -> Record {
    let node = |role: Role| Node {
        name: role.name().to_owned(),
        carrier: Carrier::LocalSocket,
        namespace: None,
        address: None,
        device: None,
        interface: None,
        side: Side::default(),
        usage: None,
        kernel: None,
        host: HostFacts::default(),
        clock_offset: None,
    };
    Record {
        schema: SCHEMA_VERSION,
        program: "0.1.0".to_owned(),
        place: Place {
            plan_digest: String::new(),
            seed: 1,
            block: 0,
            place: 0,
            point: 0,
            warm_up: false,
        },
        point,
        testbed: Testbed::Lab,
        duration_ns: Nanos::from_secs(1),
        omit_ns: Nanos(0),
        start_ns: Nanos(0),
        steady: None,
        slice_ns: None,
        slice_rates: None,
        started: "2026-01-05T09:00:00Z".to_owned(),
        nodes: [Role::Client, Role::Server].map(node).to_vec(),
        flows: Vec::new(),
        alignment: None,
        figures: Figures::default(),
        limits: Limits::default(),
        emulation: None,
        mpi: None,
        shop: None,
        bottleneck: None,
        warnings: Vec::new(),
        outcome: Outcome::Completed,
    }
}

/// The flow from client to server, with counts of zero.
pub fn flow() -> Flow {
    Flow {
        group: "load".to_owned(),
        from: Role::Client.name().to_owned(),
        to: Role::Server.name().to_owned(),
        sent: Counts::default(),
        received: Counts::default(),
        sent_series: None,
        received_series: None,
        sent_thread: None,
        received_thread: None,
        sent_threads: Vec::new(),
        received_threads: Vec::new(),
        drops: Drops::default(),
        reordered: None,
        duplicates: None,
        fairness: None,
        rtt_ns: None,
        kernel_times: None,
        pacing: None,
        tcp: None,
        quic: None,
    }
}

/// Reports a skipped test: `make test` prints the file that FABRICMARK_SKIPS names.
#[expect(clippy::print_stderr, reason = "where a test speaks")]
pub fn skip(test: &str, reason: &str) {
    eprintln!("skipped: {test}: {reason}");
    if let Some(path) = std::env::var_os("FABRICMARK_SKIPS") {
        let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
        writeln!(file, "{test}: {reason}").unwrap();
    }
}

/// A free TCP port of 127.0.0.1 that no connection takes as its own: the kernel chooses those from 32768 on
/// (`net.ipv4.ip_local_port_range`).
#[expect(clippy::disallowed_types, reason = "only tests use it")]
pub fn free_port() -> u16 {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = std::process::id().wrapping_mul(97).wrapping_add(NEXT.fetch_add(1, Relaxed));
        let port = 20_000 + (number % 12_000) as u16;
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A command that runs a script of playwright-core, which is installed in `folder`; `None`, and a counted skip, if this
/// machine has no browser. The script drives Debian's Chromium.
#[expect(clippy::disallowed_types, reason = "only tests use it")]
pub fn playwright(test: &str, script: &Path, folder: &Path) -> Option<std::process::Command> {
    use std::process::Command;
    let missing = ["node", "npm", "chromium"].into_iter().find(|program| {
        let version = Command::new(program).arg("--version").output();
        !version.is_ok_and(|output| output.status.success())
    });
    if let Some(program) = missing {
        skip(test, &format!("there is no {program}"));
        return None;
    }
    fs::create_dir_all(folder).unwrap();
    let copy = folder.join(script.file_name().unwrap());
    fs::copy(script, &copy).unwrap();
    let mut install = Command::new("npm");
    install.args(["install", "--no-save", "--silent", "playwright-core@1.56.1"]);
    let installed = install.current_dir(folder).output().unwrap();
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    let mut node = Command::new("node");
    node.arg(copy).current_dir(folder);
    Some(node)
}
