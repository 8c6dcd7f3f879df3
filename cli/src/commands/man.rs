//! `faultloom man`: prints a man page, or writes all of them into a folder.

use crate::args::{Man, visible};
use clap::Command;
use model::{Exit, Failure};
use std::path::Path;

pub fn man(args: &Man) -> Result<Exit, Failure> {
    let pages = pages();
    if let Some(folder) = &args.dir {
        return write(&pages, folder);
    }
    let name = args.command.as_ref().map_or("faultloom".to_owned(), |command| format!("faultloom-{command}"));
    let Some(page) = pages.iter().find(|page| page.name == name) else {
        let names: Vec<&str> = pages.iter().filter_map(|page| page.name.strip_prefix("faultloom-")).collect();
        return Err(Failure::request(format!("there is no page for '{}'", name.trim_start_matches("faultloom-")))
            .next(format!("the commands are {}", names.join(", "))));
    };
    print!("{}", page.text()?);
    Ok(Exit::Pass)
}

fn write(pages: &[Page], folder: &Path) -> Result<Exit, Failure> {
    let failed =
        |path: &Path, e: std::io::Error| Failure::environment(format!("{} cannot be written: {e}", path.display()));
    std::fs::create_dir_all(folder).map_err(|e| failed(folder, e))?;
    for page in pages {
        let path = folder.join(format!("{}.1", page.name));
        std::fs::write(&path, page.text()?).map_err(|e| failed(&path, e))?;
    }
    println!("{} pages in {}", pages.len(), folder.display());
    Ok(Exit::Pass)
}

struct Page {
    /// `faultloom-flip-replay`.
    name: String,
    command: Command,
}

impl Page {
    fn text(&self) -> Result<String, Failure> {
        let mut page = Vec::new();
        // the pages of a version are the same whenever they are made
        let manual = clap_mangen::Man::new(self.command.clone()).title(self.name.to_uppercase()).date("");
        manual.render(&mut page).map_err(|e| Failure::environment(format!("the page cannot be made: {e}")))?;
        Ok(String::from_utf8_lossy(&page).into_owned())
    }
}

/// Of the tool and of each command that is not internal, with its parts.
fn pages() -> Vec<Page> {
    let mut root = visible();
    root.build();
    let mut pages = Vec::new();
    add(&root, "", &mut pages);
    pages
}

fn add(command: &Command, above: &str, pages: &mut Vec<Page>) {
    let name = if above.is_empty() { command.get_name().to_owned() } else { format!("{above}-{}", command.get_name()) };
    let shown = command.get_subcommands().filter(|part| part.get_name() != "help");
    shown.for_each(|part| add(part, &name, pages));
    // the name in the page is that of the whole command line: `faultloom flip replay`
    pages.push(Page { command: command.clone().name(name.clone()), name });
}
