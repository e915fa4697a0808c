//! HELP of the commands that have subcommands.

use crate::{every_store::in_memory, frames::ask};
use kvbench::command::table;

#[test]
fn help_lists_every_subcommand_with_its_summary() {
    let running = in_memory(&[]);
    let mut client = running.connect();
    for spec in table().filter(|spec| !spec.subcommands.is_empty()) {
        let reply = String::from_utf8(ask(&mut client, &[spec.name, "help"])).unwrap();
        let mut lines = reply.lines();
        assert_eq!(lines.next(), Some(&*format!("*{}", 1 + 2 * spec.subcommands.len())), "{reply}");
        let head =
            format!("+{} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:", spec.name.to_uppercase());
        assert_eq!(lines.next(), Some(&*head));
        for subcommand in spec.subcommands {
            assert!(
                subcommand.name.starts_with(&format!("{}|", spec.name)) && !subcommand.summary.is_empty()
            );
            assert_eq!(lines.next(), Some(&*format!("+{}", subcommand.word().to_uppercase())));
            assert_eq!(lines.next(), Some(&*format!("+    {}", subcommand.summary)));
        }
    }
}
