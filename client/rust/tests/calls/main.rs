//! Tests of whole calls, with a server of the test's own. All of them are one program, so that it is linked only once.

mod connections;
mod methods;
mod server;
