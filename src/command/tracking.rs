//! CLIENT TRACKING and related subcommands. The server never sends invalidation messages.

use super::{
    error::{NOT_AN_INTEGER, SYNTAX_ERROR},
    server_state::ServerState,
};
use crate::resp::{Args, Reply, parse_integer};

const NO_TRACKING: &str = "ERR kvbench does not keep track of what clients cache; leave CLIENT TRACKING out";
const NOT_TRACKING: &str = "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or \
                            OPTOUT mode enabled";

/// Executes CLIENT CACHING, GETREDIR, TRACKING or TRACKINGINFO; returns the text of the error reply on failure.
pub(super) fn tracking(
    context: &ServerState,
    subcommand: &str,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<(), Vec<u8>> {
    match subcommand {
        "caching" => return Err(NOT_TRACKING.into()),
        "getredir" => reply.integer(-1),
        "tracking" => {
            switch_tracking(context, args)?;
            reply.ok();
        }
        _ => {
            reply.map(3);
            reply.bulk(b"flags");
            reply.set(1);
            reply.bulk(b"off");
            reply.bulk(b"redirect");
            reply.integer(-1);
            reply.bulk(b"prefixes");
            reply.array(0);
        }
    }
    Ok(())
}

/// Executes CLIENT TRACKING ON|OFF: checks the options as Redis does. Tracking stays off.
fn switch_tracking(context: &ServerState, args: Args<'_>) -> Result<(), String> {
    let options = Options::parse(context, args)?;
    match args.get(2) {
        word if word.eq_ignore_ascii_case(b"on") => {
            options.check()?;
            Err(NO_TRACKING.into())
        }
        word if word.eq_ignore_ascii_case(b"off") => Ok(()),
        _ => Err(SYNTAX_ERROR.to_string()),
    }
}

/// Options of CLIENT TRACKING.
#[derive(Default)]
struct Options {
    redirect: i64,
    prefix: bool,
    bcast: bool,
    optin: bool,
    optout: bool,
}

impl Options {
    fn parse(context: &ServerState, args: Args<'_>) -> Result<Self, String> {
        let mut options = Self::default();
        let mut words = args.from(3);
        while let Some(word) = words.next() {
            match word.to_ascii_lowercase().as_slice() {
                b"redirect" if words.len() > 0 => {
                    options.redirect_to(context, words.next().unwrap_or_default())?;
                }
                b"prefix" if words.len() > 0 => options.prefix = words.next().is_some(),
                b"bcast" => options.bcast = true,
                b"optin" => options.optin = true,
                b"optout" => options.optout = true,
                b"noloop" => {}
                _ => return Err(SYNTAX_ERROR.to_string()),
            }
        }
        Ok(options)
    }

    fn redirect_to(&mut self, context: &ServerState, id: &[u8]) -> Result<(), String> {
        if self.redirect != 0 {
            return Err("ERR A client can only redirect to a single other client".into());
        }
        self.redirect = parse_integer(id).ok_or_else(|| NOT_AN_INTEGER.to_string())?;
        let is_there = |id: u64| context.clients.all().iter().any(|client| client.id == id);
        if !u64::try_from(self.redirect).is_ok_and(is_there) {
            return Err("ERR The client ID you want redirect to does not exist".into());
        }
        Ok(())
    }

    /// Checks that the options are compatible with each other.
    fn check(&self) -> Result<(), &'static str> {
        if self.prefix && !self.bcast {
            return Err("ERR PREFIX option requires BCAST mode to be enabled");
        }
        if self.bcast && (self.optin || self.optout) {
            return Err("ERR OPTIN and OPTOUT are not compatible with BCAST");
        }
        if self.optin && self.optout {
            return Err("ERR You can't specify both OPTIN mode and OPTOUT mode");
        }
        Ok(())
    }
}
