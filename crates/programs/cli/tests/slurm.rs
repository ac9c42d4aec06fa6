//! MPI jobs under Slurm: one machine with its daemons as processes of the test.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use fabricmark_testkit::documents::document;
use fabricmark_testkit::skip;
use tempfile::TempDir;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_fabricmark");

/// How long the daemons may take to start, and a job to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster of this machine, which ends with this value.
struct Cluster {
    folder: TempDir,
    daemons: Vec<Child>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for daemon in self.daemons.iter_mut().rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn installed(program: &str) -> Option<PathBuf> {
    let folders = ["/usr/sbin", "/usr/bin"];
    folders.iter().map(|folder| Path::new(folder).join(program)).find(|path| path.is_file())
}

impl Cluster {
    /// Starts munged, slurmctld and slurmd; `None`, and a counted skip, if they are not installed.
    fn start(test: &str) -> Option<Self> {
        let programs = ["munged", "slurmctld", "slurmd", "srun", "sbatch"].map(installed);
        let [Some(munged), Some(slurmctld), Some(slurmd), Some(_), Some(_)] = programs else {
            skip(test, "Slurm is not installed: apt-get install slurm-wlm munge");
            return None;
        };
        if !rustix::process::geteuid().is_root() {
            skip(test, "the daemons of Slurm need root");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        fs::set_permissions(at, fs::Permissions::from_mode(0o755)).unwrap();
        let mut cluster = Self { folder, daemons: Vec::new() };
        let at = cluster.folder.path().to_owned();
        let host = Command::new("hostname").output().unwrap();
        let host = String::from_utf8(host.stdout).unwrap().trim().to_owned();
        let file = |name: &str| at.join(name).display().to_string();
        fs::write(at.join("munge.key"), [7; 64]).unwrap();
        fs::set_permissions(at.join("munge.key"), fs::Permissions::from_mode(0o400)).unwrap();
        for folder in ["state", "spool"] {
            fs::create_dir(at.join(folder)).unwrap();
        }
        let configuration = format!(
            "ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={}\nSlurmdPort={}\n\
             AuthType=auth/munge\nAuthInfo=socket={}\nCredType=cred/munge\nSlurmUser=root\nSlurmdUser=root\n\
             StateSaveLocation={}\nSlurmdSpoolDir={}\nSlurmctldPidFile={}\nSlurmdPidFile={}\n\
             SlurmctldLogFile={}\nSlurmdLogFile={}\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n\
             ReturnToService=2\nAccountingStorageType=accounting_storage/none\n\
             NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN\n\
             PartitionName=debug Nodes={host} Default=YES State=UP\n",
            free_port(),
            free_port(),
            file("munge.sock"),
            file("state"),
            file("spool"),
            file("ctld.pid"),
            file("d.pid"),
            file("ctld.log"),
            file("d.log"),
        );
        fs::write(at.join("slurm.conf"), configuration).unwrap();
        let munge = [
            "--force".to_owned(),
            "--foreground".to_owned(),
            format!("--key-file={}", file("munge.key")),
            format!("--socket={}", file("munge.sock")),
            format!("--pid-file={}", file("munge.pid")),
            format!("--log-file={}", file("munge.log")),
            format!("--seed-file={}", file("munge.seed")),
        ];
        cluster.daemon(&munged, &munge.each_ref().map(String::as_str));
        let has_socket = |cluster: &Self| cluster.folder.path().join("munge.sock").exists();
        if let Err(log) = cluster.until(has_socket) {
            skip(test, &format!("munged does not start here: {log}"));
            return None;
        }
        cluster.daemon(&slurmctld, &["-D", "-i"]);
        cluster.daemon(&slurmd, &["-D", "-N", &host]);
        let is_idle = |cluster: &Self| {
            let listed = cluster.command("sinfo").args(["-h", "-o", "%t"]).output().unwrap();
            String::from_utf8_lossy(&listed.stdout).trim() == "idle"
        };
        if let Err(log) = cluster.until(is_idle) {
            skip(test, &format!("Slurm's daemons do not start here: {log}"));
            return None;
        }
        Some(cluster)
    }

    fn daemon(&mut self, program: &Path, arguments: &[&str]) {
        let mut command = self.command(&program.display().to_string());
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.daemons.push(command.spawn().unwrap());
    }

    /// A command of Slurm, in the folder of the cluster, with the programs of this build on its path.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let programs = Path::new(PROGRAM).parent().unwrap().display().to_string();
        command.env("PATH", format!("{programs}:/usr/sbin:/usr/bin:/sbin:/bin"));
        command.env("SLURM_CONF", self.folder.path().join("slurm.conf"));
        command.current_dir(self.folder.path());
        command
    }

    /// Waits until something is true; each look starts a program or reads a folder. The error is the end of the logs.
    fn until(&self, is_true: impl Fn(&Self) -> bool) -> Result<(), String> {
        let until = Instant::now() + PATIENCE;
        while !is_true(self) {
            if Instant::now() >= until {
                let read = |name: &str| {
                    let log = fs::read_to_string(self.folder.path().join(name));
                    log.unwrap_or_default().lines().last().unwrap_or_default().to_owned()
                };
                return Err(["munge.log", "ctld.log", "d.log"].map(read).join("; "));
            }
        }
        Ok(())
    }
}

fn succeeds(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn srun_starts_ranks_and_a_batch_script_runs_a_plan() {
    let test = "srun_starts_ranks_and_a_batch_script_runs_a_plan";
    let is_built = |library: &&str| {
        Path::new(PROGRAM).with_file_name(format!("fabricmark-mpi-{library}")).is_file()
    };
    if !["openmpi", "mpich"].iter().all(is_built) {
        return skip(test, "fabricmark-mpi was not built: run scripts/mpi debug");
    }
    let Some(cluster) = Cluster::start(test) else { return };
    for (library, plugin) in [("openmpi", "pmix"), ("mpich", "pmi2")] {
        let mut srun = cluster.command("srun");
        srun.args(["-n", "2", "--mpi", plugin]).arg(format!("fabricmark-mpi-{library}"));
        srun.args(["PingPong", "-l", "8", "--duration", "10ms"]);
        let text = succeeds(&srun.output().unwrap());
        assert!(text.contains("PingPong, 2 ranks: half the round trip"), "{library}: {text}");
    }
    // The script of docs/mpi.md, on the one node of this cluster.
    let page = document("docs/mpi.md");
    let scripts = page.blocks().into_iter().map(|block| block.text());
    let script = scripts.filter(|text| text.contains("#SBATCH")).collect::<String>();
    assert!(script.contains("--nodes=2 --ntasks-per-node=1"), "{script}");
    let script = script.replace("--nodes=2 --ntasks-per-node=1", "--nodes=1 --ntasks-per-node=2");
    fs::write(cluster.folder.path().join("job.sh"), script).unwrap();
    let plan = "title = \"t\"\ntestbed = \"mpi\"\n[factors]\nbenchmark = [\"PingPong\"]\n\
                mpi_transport = [\"tcp\", \"shm\"]\npayload = [8]\n[run]\nduration = \"20ms\"\n\
                [stop]\nruns = 2\n[[compare]]\nfactor = \"mpi_transport\"\nbaseline = \"tcp\"\n\
                candidate = \"shm\"\n";
    fs::write(cluster.folder.path().join("plan.toml"), plan).unwrap();
    let mut sbatch = cluster.command("sbatch");
    sbatch.args(["--wait", "--output=job.out", "job.sh"]);
    let submitted = sbatch.output().unwrap();
    let printed = fs::read_to_string(cluster.folder.path().join("job.out")).unwrap_or_default();
    assert!(submitted.status.success(), "{printed}");
    assert!(printed.contains("MPI over shm against MPI over tcp"), "{printed}");
    assert!(printed.contains("0 invalid"), "{printed}");
}
