//! Says that it is Linux that Namiki runs on, where the compiler finds another system.
//!
//! All crates that need Linux depend on this one; what it needs of other crates is not compiled
//! elsewhere (`Cargo.toml`), so that their errors do not come first.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "Namiki runs on Linux only: its disks are written with O_DIRECT and read through io_uring. Build it on Linux, or in a \
     container or a virtual machine that runs Linux."
);
