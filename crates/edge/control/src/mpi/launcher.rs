//! The command that starts an MPI job: launchers of the libraries, and their settings of a transport.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use fabricmark_plan::{MpiLibrary, MpiTransport};
use fabricmark_record::MPI_BY_RANK;

use crate::error::PlanError;

/// What a job needs to be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Launch<'a> {
    pub(super) library: MpiLibrary,
    pub(super) transport: MpiTransport,
    pub(super) ranks: u32,
    /// Command of the user, such as `mpirun --hostfile hosts`; empty: the launcher of the library on this machine.
    pub(super) launcher: &'a [String],
    /// Network and RDMA devices of the two ends on this machine; `None`: loopback.
    pub(super) devices: Option<[Device; 2]>,
}

/// Devices of an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Device {
    /// Network device, such as `v0`.
    pub(super) network: String,
    /// RDMA device on it, such as `rxe0`.
    pub(super) rdma: Option<String>,
}

/// Names of a library.
struct Names {
    /// Its launcher in Debian, which has both libraries.
    launcher: &'static str,
    /// Debian packages.
    packages: &'static str,
}

const fn names(library: MpiLibrary) -> Names {
    match library {
        MpiLibrary::OpenMpi => {
            Names { launcher: "mpirun.openmpi", packages: "libopenmpi-dev openmpi-bin" }
        }
        MpiLibrary::Mpich => Names { launcher: "mpirun.mpich", packages: "libmpich-dev mpich" },
    }
}

impl Launch<'_> {
    /// The command without the program, and the variables of its environment.
    fn parts(&self) -> (Vec<String>, Vec<(String, String)>) {
        let mut variables = self.variables();
        let is_given = !self.launcher.is_empty();
        let mut words = if is_given {
            self.launcher.to_vec()
        } else {
            vec![names(self.library).launcher.to_owned()]
        };
        let program = Path::new(&words[0]).file_name().unwrap_or_default().to_string_lossy();
        let is_srun = program == "srun";
        if !is_given {
            match self.library {
                MpiLibrary::OpenMpi => {
                    let slots = format!("localhost:{}", self.ranks);
                    words.extend(["-H", &slots, "--bind-to", "core"].map(str::to_owned));
                    if rustix::process::geteuid().is_root() {
                        for name in ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] {
                            variables.push((name.to_owned(), "1".to_owned()));
                        }
                    }
                }
                MpiLibrary::Mpich => words.extend(["-bind-to", "core"].map(str::to_owned)),
            }
        }
        words.extend(["-n".to_owned(), self.ranks.to_string()]);
        // The launcher of Open MPI passes only its own variables on to other hosts.
        if self.library == MpiLibrary::OpenMpi && !is_srun {
            for (name, _) in variables.iter().filter(|(name, _)| !name.starts_with("OMPI_")) {
                words.extend(["-x".to_owned(), name.clone()]);
            }
        }
        (words, variables)
    }

    /// Variables that select the transport.
    fn variables(&self) -> Vec<(String, String)> {
        use MpiLibrary::{Mpich, OpenMpi};
        use MpiTransport::{Auto, Ofi, Rc, Shm, Tcp, Ud};
        let mut all: Vec<(&str, &str)> = match (self.library, self.transport) {
            (_, Auto) => Vec::new(),
            (OpenMpi, Shm) => vec![("OMPI_MCA_pml", "ob1"), ("OMPI_MCA_btl", "self,vader")],
            (OpenMpi, Tcp) => vec![("OMPI_MCA_pml", "ob1"), ("OMPI_MCA_btl", "self,tcp")],
            (OpenMpi, Rc) => vec![("OMPI_MCA_pml", "ucx"), ("UCX_TLS", "rc_v,self")],
            (OpenMpi, Ud) => vec![("OMPI_MCA_pml", "ucx"), ("UCX_TLS", "ud_v,self")],
            (OpenMpi, Ofi) => vec![("OMPI_MCA_pml", "cm"), ("OMPI_MCA_mtl", "ofi")],
            (Mpich, Shm) => vec![("MPIR_CVAR_NOLOCAL", "0")],
            (Mpich, Tcp) => vec![("MPIR_CVAR_NOLOCAL", "1"), ("UCX_TLS", "tcp,self")],
            (Mpich, Rc) => vec![("MPIR_CVAR_NOLOCAL", "1"), ("UCX_TLS", "rc_v,self")],
            (Mpich, Ud) => vec![("MPIR_CVAR_NOLOCAL", "1"), ("UCX_TLS", "ud_v,self")],
            (Mpich, Ofi) => vec![("MPIR_CVAR_NOLOCAL", "1"), ("MPIR_CVAR_CH4_NETMOD", "ofi")],
        };
        if matches!(self.transport, Rc | Ud) && self.is_soft_roce() {
            // With another index of rxe, endpoints of UCX 1.13 time out.
            all.push(("UCX_IB_GID_INDEX", "0"));
        }
        let mut all: Vec<(String, String)> =
            all.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        all.extend(self.device_variable());
        all
    }

    fn is_soft_roce(&self) -> bool {
        let names = self.devices.iter().flatten().filter_map(|device| device.rdma.as_deref());
        names.into_iter().any(|name| name.starts_with("rxe"))
    }

    /// Selects the devices of the ranks on this machine.
    fn device_variable(&self) -> Option<(String, String)> {
        let variable = match (self.library, self.transport) {
            (MpiLibrary::OpenMpi, MpiTransport::Tcp) => "OMPI_MCA_btl_tcp_if_include",
            (_, MpiTransport::Tcp | MpiTransport::Rc | MpiTransport::Ud) => "UCX_NET_DEVICES",
            (_, MpiTransport::Auto | MpiTransport::Shm | MpiTransport::Ofi) => return None,
        };
        if !self.launcher.is_empty() {
            return None;
        }
        let Some(devices) = &self.devices else {
            let is_tcp = self.transport == MpiTransport::Tcp;
            return is_tcp.then(|| (variable.to_owned(), "lo".to_owned()));
        };
        let name = |device: &Device| match (self.transport, &device.rdma) {
            (MpiTransport::Rc | MpiTransport::Ud, Some(rdma)) => format!("{rdma}:1"),
            _ => device.network.clone(),
        };
        let [one, other] = devices.each_ref().map(name);
        Some((MPI_BY_RANK.to_owned(), format!("{variable}={one},{other}")))
    }

    /// The command for a program with these arguments, and its text for records.
    pub(super) fn command(&self, program: &Path, arguments: &[&str]) -> (Command, String) {
        let (words, variables) = self.parts();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(program).args(arguments);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        let settings = variables.iter().map(|(name, value)| format!("{name}={value}"));
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text: Vec<String> = settings.chain(words).chain([name]).collect();
        (command, text.join(" "))
    }
}

/// Checks that a library's launcher and program exist; returns the path of the program. Programs are beside this one,
/// or on the PATH.
pub(super) fn find(
    library: MpiLibrary,
    this_program: &Path,
    has_launcher: bool,
) -> Result<PathBuf, PlanError> {
    let Names { launcher, packages } = names(library);
    if !has_launcher && on_path(launcher).is_none() {
        return Err(PlanError::Missing(format!(
            "{launcher} is missing: run `apt-get install {packages}`, then `make mpi`"
        )));
    }
    let name = format!("fabricmark-mpi-{library}");
    let beside = this_program.with_file_name(&name);
    if beside.is_file() {
        return Ok(beside);
    }
    on_path(&name).ok_or_else(|| {
        PlanError::Missing(format!(
            "{name} is missing: run `apt-get install {packages}`, then `make mpi` in the sources of \
             fabricmark"
        ))
    })
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path: OsString = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(library: MpiLibrary, transport: MpiTransport) -> Launch<'static> {
        Launch { library, transport, ranks: 2, launcher: &[], devices: None }
    }

    fn text(launch: &Launch<'_>) -> String {
        let text = launch.command(Path::new("/opt/fabricmark-mpi"), &["--job"]).1;
        // Tests run as root and as others.
        text.replace("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ", "")
    }

    #[test]
    fn the_transport_is_set_by_variables_and_named_in_full() {
        assert_eq!(
            text(&launch(MpiLibrary::OpenMpi, MpiTransport::Tcp)),
            "OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=lo mpirun.openmpi \
             -H localhost:2 --bind-to core -n 2 fabricmark-mpi"
        );
        assert_eq!(
            text(&launch(MpiLibrary::Mpich, MpiTransport::Shm)),
            "MPIR_CVAR_NOLOCAL=0 mpirun.mpich -bind-to core -n 2 fabricmark-mpi"
        );
    }

    #[test]
    fn ranks_at_two_ends_of_a_wire_have_devices_of_their_own() {
        let end = |number: u32| Device {
            network: format!("v{number}"),
            rdma: Some(format!("rxe{number}")),
        };
        let of = |library, transport| {
            let devices = Some([end(0), end(1)]);
            text(&Launch { devices, ..launch(library, transport) })
        };
        assert_eq!(
            of(MpiLibrary::OpenMpi, MpiTransport::Rc),
            "OMPI_MCA_pml=ucx UCX_TLS=rc_v,self UCX_IB_GID_INDEX=0 \
             FABRICMARK_MPI_BY_RANK=UCX_NET_DEVICES=rxe0:1,rxe1:1 mpirun.openmpi -H localhost:2 \
             --bind-to core -n 2 -x UCX_TLS -x UCX_IB_GID_INDEX -x \
             FABRICMARK_MPI_BY_RANK fabricmark-mpi"
        );
        let tcp = of(MpiLibrary::OpenMpi, MpiTransport::Tcp);
        assert!(tcp.contains("BY_RANK=OMPI_MCA_btl_tcp_if_include=v0,v1"), "{tcp}");
    }

    #[test]
    fn the_launcher_of_the_user_places_the_ranks() {
        let launcher = ["srun".to_owned(), "-N2".to_owned()];
        let launch =
            Launch { launcher: &launcher, ..launch(MpiLibrary::OpenMpi, MpiTransport::Tcp) };
        assert_eq!(
            text(&launch),
            "OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,tcp srun -N2 -n 2 fabricmark-mpi"
        );
    }
}
