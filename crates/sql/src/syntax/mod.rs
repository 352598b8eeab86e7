//! What the engine reads of a statement's text itself: tokens, literals to be lifted out, and commands that need no
//! planner.

mod copy;
mod lexer;
mod lift;
mod quote;
mod split;
mod token_reader;
mod utility;

pub(crate) use copy::{CopyCommand, CopyFormat, CopySource};
pub(crate) use lexer::{Token, TokenKind, tokens};
pub(crate) use lift::{LiteralKind, lift};
pub(crate) use quote::quoted;
pub(crate) use split::split;
pub(crate) use token_reader::TokenReader;
pub(crate) use utility::{SetValue, Utility, parse_utility};
