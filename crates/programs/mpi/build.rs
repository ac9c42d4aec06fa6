//! Compiles and links the C layer over MPI with the compiler wrapper `$MPICC`, by default `mpicc`. Without one, the
//! program is built without MPI, so that the workspace builds on every machine; it then says what to install.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(has_mpi)");
    println!("cargo::rerun-if-env-changed=MPICC");
    println!("cargo::rerun-if-changed=src/mpi.c");
    let chosen = env::var("MPICC").ok();
    let mpicc = chosen.clone().unwrap_or_else(|| "mpicc".to_owned());
    let Some(arguments) = link_arguments(&mpicc) else {
        assert!(chosen.is_none(), "MPICC={mpicc} cannot be run, or is not a wrapper of MPI");
        println!("cargo::rerun-if-env-changed=PATH");
        return;
    };
    let folder = env::var("OUT_DIR").expect("cargo sets it");
    let object = Path::new(&folder).join("mpi.o");
    let compiled = Command::new(&mpicc)
        // GCC takes MPICH's MPI_STATUSES_IGNORE, the address 1, for an array.
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-Wno-stringop-overflow", "-fPIC"])
        .args(["-c", "src/mpi.c", "-o"])
        .arg(&object)
        .status();
    assert!(compiled.is_ok_and(|status| status.success()), "{mpicc} cannot compile src/mpi.c");
    println!("cargo::rustc-cfg=has_mpi");
    println!("cargo::rustc-link-arg={}", object.display());
    // Folders first; paths of libraries at run time, as of modules and Spack.
    for kind in ["-L", "-Wl,-rpath", "-l"] {
        for argument in arguments.iter().filter(|argument| argument.starts_with(kind)) {
            println!("cargo::rustc-link-arg={argument}");
        }
    }
}

/// What the wrapper passes to the linker. Open MPI prints it with `-showme:link`, MPICH the whole command with
/// `-link_info`.
fn link_arguments(mpicc: &str) -> Option<Vec<String>> {
    ["-showme:link", "-link_info"].into_iter().find_map(|option| {
        let output = Command::new(mpicc).arg(option).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        let is_link = output.status.success() && words.iter().any(|word| word.starts_with("-lm"));
        is_link.then_some(words)
    })
}
