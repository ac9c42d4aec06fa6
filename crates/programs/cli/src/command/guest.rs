//! Commands and plans in a guest kernel.

use std::env;
use std::fs;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::path::{self, Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use fabricmark_guest::{DEVICES, Job, Line};
use fabricmark_plan::Plan;
use fabricmark_wire::{Link, MTU_DEFAULT};

use crate::command::run::this_program;
use crate::exit::{Code, Failure};
use crate::interrupt::interruptions;
use crate::options::lab::Guest;
use crate::options::{GUEST, How, Place};

/// Time limit longer than any plan; Ctrl-C ends it sooner.
const PLAN_LIMIT: Duration = Duration::from_secs(7 * 86_400);

/// Runs a command in a guest kernel and returns its exit code.
pub fn guest(options: &Guest) -> Result<ExitCode, Failure> {
    let Guest { kernel, writable, limit, wire, command } = options;
    if let Some(folder) = writable.iter().find(|folder| !folder.is_dir()) {
        let message = format!("--writable {}: no such folder; create it first", folder.display());
        return Err(Failure::input(message));
    }
    let wire = &commands(*wire)?;
    let limit = Duration::from_nanos(limit.0);
    Ok(boot(*kernel, &Job { command, writable, limit, wire })?.into())
}

/// Runs this command again in a guest, over the link of the plan.
pub fn again(plan: &Plan, how: &How) -> Result<(), Failure> {
    let link = plan.points[0].link;
    if plan.points.iter().any(|point| point.link != link) {
        let message =
            "a guest has only one link: give link one level, or run the plan with --ends or --to";
        return Err(Failure::input(message));
    }
    // Report errors before the guest boots.
    fabricmark_control::check_mpi(plan, &this_program()?)?;
    plan.clone().to_host(&Plan::own_name(&GUEST.to_string()), None)?;
    let writable = writable(&how.place)?;
    for folder in &writable {
        fs::create_dir_all(folder).map_err(Failure::output(folder.display()))?;
    }
    let mut command = vec![this_program()?.into_os_string()];
    command.extend(env::args_os().skip(1));
    command.push("--in-guest".into());
    let wire = &commands(Some(link))?;
    let job = Job { command: &command, writable: &writable, limit: PLAN_LIMIT, wire };
    match boot(Line::V6_1, &job)? {
        0 => Ok(()),
        code => {
            Err(Failure::new(Code::of(code), "the run in the guest ended with the error above"))
        }
    }
}

/// The folders of the output and of the store.
fn writable(place: &Place) -> Result<Vec<PathBuf>, Failure> {
    let [out, store] = [&place.out, &place.store_file()].map(path::absolute);
    let (out, store) =
        out.and_then(|out| Ok((out, store?))).map_err(Failure::output("this folder"))?;
    let of_store = store.parent().filter(|folder| *folder != out).map(Path::to_owned);
    Ok([out].into_iter().chain(of_store).collect())
}

/// Commands that set up the guest's link; empty for the pair of devices as it is.
fn commands(link: Option<Link>) -> Result<String, Failure> {
    match link {
        None | Some(Link::Loopback | Link::Veth { mtu: MTU_DEFAULT }) => Ok(String::new()),
        Some(Link::Veth { mtu }) => {
            Ok(DEVICES.map(|device| format!("ip link set dev {device} mtu {mtu}\n")).concat())
        }
        Some(link) => fabricmark_lab::wire_of(link, DEVICES)
            .map_err(|refusal| Failure::input(format!("link={link} in a guest: {refusal}"))),
    }
}

/// Runs a job in a guest, prints what its figures are worth, and returns the exit code of its command.
fn boot(kernel: Line, job: &Job<'_>) -> Result<u8, Failure> {
    let interrupted = interruptions()?;
    let guest = fabricmark_guest::Guest::ready(kernel, &mut |what| note!("{what}"))?;
    let done = guest.run(job, &mut io::stdout(), &mut io::stderr(), &interrupted)?;
    note!(
        "guest {} with CPUs emulated in software: figures compare transports inside it and say \
         nothing about hardware; {} packets crossed its network, its first adapter sent {} RDMA \
         packets",
        guest.kernel(),
        done.crossed_packets,
        done.rdma_packets
    );
    Ok(done.code)
}

/// Name by which both ends of SMC over RoCEv2 know that they belong together. Linux 6.1 falls back to TCP all the same.
const EID: &str = "FABRICMARK";

/// Adds the user EID of SMC, then keeps packet timestamps enabled in the kernel until this process is killed; prints a
/// line when they are.
///
/// Their first user makes the kernel patch its own code in the receive path, and the last one makes it patch that back.
/// If CPUs are emulated in software, another CPU may execute half-patched code, and the kernel crashes. Keeping them in
/// use from before the second CPU is online prevents that.
pub fn prepare() -> Result<(), Failure> {
    if let Err(error) = fabricmark_load::smc::add_eid(EID) {
        note!("the guest has no SMC: {error}");
    }
    let failed =
        |error: io::Error| Failure::internal(format!("cannot enable packet timestamps: {error}"));
    let socket = UdpSocket::bind("127.0.0.1:0").map_err(failed)?;
    fabricmark_telemetry::stamp::enable(socket.as_fd(), false).map_err(failed)?;
    println!("ready");
    loop {
        thread::park();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The folders for an output folder and a store, below the folder of this process.
    fn folders(out: &str, store: Option<&str>) -> Vec<PathBuf> {
        let place = Place { out: out.into(), store: store.map(Into::into) };
        let here = env::current_dir().unwrap();
        let found = writable(&place).unwrap().into_iter();
        found.map(|folder| folder.strip_prefix(&here).unwrap_or(&folder).to_owned()).collect()
    }

    #[test]
    fn a_link_that_a_guest_cannot_have_is_refused_and_an_mtu_is_set() {
        let commands = |link: &str| commands(Some(link.parse().unwrap()));
        assert_eq!(commands("veth").unwrap(), "");
        let jumbo = "ip link set dev v0 mtu 9000\nip link set dev v1 mtu 9000\n";
        assert_eq!(commands("veth,mtu=9000").unwrap(), jumbo);
        assert!(commands("ib:4X-HDR").is_err() && commands("rocev1:10G").is_err());
    }

    #[test]
    fn a_store_named_without_a_folder_is_in_this_folder() {
        assert_eq!(folders("out", None), [Path::new("out")]);
        assert_eq!(folders("out", Some("s.sqlite")), [Path::new("out"), Path::new("")]);
        assert_eq!(folders("out", Some("/tmp/s.sqlite")), [Path::new("out"), Path::new("/tmp")]);
    }
}
