//! The manual page: every command and option on one page, as `man fabricmark` shows it.

use std::io;

use clap::Command;
use clap_mangen::Man;

/// The page in the format of man(7).
pub fn page(command: Command) -> Vec<u8> {
    let mut page = Vec::new();
    // Writing to memory does not fail.
    let _ = write(command, &mut page);
    page
}

fn write(mut command: Command, page: &mut Vec<u8>) -> io::Result<()> {
    command.build();
    let main = Man::new(command.clone());
    main.render_title(page)?;
    main.render_name_section(page)?;
    main.render_synopsis_section(page)?;
    main.render_description_section(page)?;
    main.render_options_section(page)?;
    subcommands(&command, "fabricmark", page)
}

/// A section for each command, and for each of its own.
fn subcommands(command: &Command, path: &str, page: &mut Vec<u8>) -> io::Result<()> {
    let shown = |one: &&Command| !one.is_hide_set() && one.get_name() != "help";
    for one in command.get_subcommands().filter(shown) {
        let path = format!("{path} {}", one.get_name());
        let mut section = Vec::new();
        let man = Man::new(one.clone());
        man.render_synopsis_section(&mut section)?;
        man.render_description_section(&mut section)?;
        if one.get_arguments().any(|argument| !argument.is_hide_set()) {
            man.render_options_section(&mut section)?;
        }
        page.extend(format!(".SH {}\n", path.to_uppercase().replace('-', "\\-")).into_bytes());
        // Its parts are subsections of the page.
        let section = String::from_utf8_lossy(&section).replace(".SH ", ".SS ");
        page.extend(section.into_bytes());
        subcommands(one, &path, page)?;
    }
    Ok(())
}
